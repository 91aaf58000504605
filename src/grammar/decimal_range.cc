#include "grammar/decimal_range.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "base/try.h"
#include "grammar/regular.h"

namespace stoker::grammar {
namespace {

constexpr int kMaxExponent = 300;

// Compares magnitudes without sign.
int compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) return a.integer.size() < b.integer.size() ? -1 : 1;
  // Fractions without trailing zeros compare like words.
  const int order = a.integer.compare(b.integer);
  return order != 0 ? order : a.fraction.compare(b.fraction);
}

// Reads an unsigned number and knows how it compares to a bound.
struct Reader {
  enum class Phase : uint8_t { kStart, kZero, kInteger, kPoint, kFraction };
  Phase phase = Phase::kStart;
  int32_t order = 0;    // of the digits so far to the bound's as many
  uint32_t digits = 0;  // of the integer, at most one more than the bound's; then of the fraction

  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm
  auto operator<=>(const Reader&) const = default;
};

// The order of the whole number read so far to the bound, in the fraction for kPoint, kFraction.
int order_of(const Reader& r, const Decimal& bound) {
  if (r.phase == Reader::Phase::kPoint || r.phase == Reader::Phase::kFraction) {
    if (r.order != 0) return r.order;
    return r.digits < bound.fraction.size() ? -1 : 0;
  }
  if (r.digits != bound.integer.size()) return r.digits < bound.integer.size() ? -1 : 1;
  if (r.order != 0) return r.order;
  return bound.fraction.empty() ? 0 : -1;
}

int sign_of(int difference) {
  return difference < 0 ? -1 : (difference > 0 ? 1 : 0);
}

std::optional<Reader> read_digit(const Reader& r, char digit, const Decimal& bound) {
  Reader next = r;
  switch (r.phase) {
    case Reader::Phase::kZero:
      return std::nullopt;
    case Reader::Phase::kStart:
    case Reader::Phase::kInteger:
      next.phase = r.phase == Reader::Phase::kStart && digit == '0' ? Reader::Phase::kZero
                                                                    : Reader::Phase::kInteger;
      if (r.order == 0 && r.digits < bound.integer.size())
        next.order = sign_of(digit - bound.integer[r.digits]);
      next.digits = std::min(r.digits + 1, static_cast<uint32_t>(bound.integer.size() + 1));
      return next;
    case Reader::Phase::kPoint:
    case Reader::Phase::kFraction:
      next.phase = Reader::Phase::kFraction;
      if (r.order == 0) {
        const char wanted = r.digits < bound.fraction.size() ? bound.fraction[r.digits] : '0';
        next.order = sign_of(digit - wanted);
        next.digits = std::min(r.digits + 1, static_cast<uint32_t>(bound.fraction.size()));
      }
      if (next.order != 0) next.digits = 0;  // they do not matter any more
      return next;
  }
  return std::nullopt;
}

std::optional<Reader> read_point(const Reader& r, const Decimal& bound) {
  if (r.phase != Reader::Phase::kZero && r.phase != Reader::Phase::kInteger) return std::nullopt;
  int order = r.order;
  if (r.digits != bound.integer.size()) order = r.digits < bound.integer.size() ? -1 : 1;
  return Reader{Reader::Phase::kPoint, order, 0};
}

// Unsigned numbers for which `accepts` likes the order to the bound.
Regular compared(const Decimal& bound, bool integers_only,
                 const std::function<bool(int order)>& accepts) {
  Regular out;
  std::map<Reader, uint32_t> number;
  std::vector<Reader> readers;
  const auto number_of = [&](const Reader& reader) {
    const auto [at, is_new] = number.try_emplace(reader, static_cast<uint32_t>(readers.size()));
    if (is_new) readers.push_back(reader);
    return at->second;
  };
  number_of(Reader{});
  for (size_t i = 0; i < readers.size(); ++i) {
    const Reader reader = readers[i];
    Regular::State state;
    state.accepts = reader.phase != Reader::Phase::kStart &&
                    reader.phase != Reader::Phase::kPoint && accepts(order_of(reader, bound));
    for (char digit = '0'; digit <= '9'; ++digit) {
      const auto byte = static_cast<uint8_t>(digit);
      if (const auto next = read_digit(reader, digit, bound))
        state.edges.push_back({byte, byte, number_of(*next)});
    }
    if (!integers_only)
      if (const auto next = read_point(reader, bound))
        state.edges.push_back({'.', '.', number_of(*next)});
    out.states.push_back(std::move(state));
  }
  return out;
}

// Unsigned integers, any number of digits, that `divisor` divides.
Regular multiples(uint32_t divisor) {
  Regular out;
  out.states.resize(size_t{divisor} + 1);  // state 1 + r: the remainder so far is r
  for (uint32_t r = 0; r < divisor; ++r) {
    Regular::State& state = out.states[1 + r];
    state.accepts = r == 0;
    for (uint32_t digit = 0; digit < 10; ++digit) {
      const auto byte = static_cast<uint8_t>('0' + digit);
      const auto to = static_cast<uint32_t>((uint64_t{r} * 10 + digit) % divisor);
      state.edges.push_back({byte, byte, 1 + to});
    }
  }
  out.states[0].edges = out.states[1].edges;
  return out;
}

// Unsigned numbers from low to high, where there are such bounds.
Result<Regular> magnitudes(const std::optional<NumberRange::Bound>& low,
                           const std::optional<NumberRange::Bound>& high,
                           const NumberRange& range) {
  Regular all = compared(Decimal{}, range.integers_only, [](int) { return true; });
  if (low) {
    const bool inclusive = low->inclusive;
    TRY_ASSIGN(all,
               intersection(all, compared(low->value, range.integers_only, [inclusive](int order) {
                              return order > 0 || (inclusive && order == 0);
                            })));
  }
  if (high) {
    const bool inclusive = high->inclusive;
    TRY_ASSIGN(all,
               intersection(all, compared(high->value, range.integers_only, [inclusive](int order) {
                              return order < 0 || (inclusive && order == 0);
                            })));
  }
  if (range.multiple_of > 1) {
    TRY_ASSIGN(all, intersection(all, multiples(range.multiple_of)));
  }
  return all;
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal out;
  if (!text.empty() && text[0] == '-') {
    out.negative = true;
    text.remove_prefix(1);
  }
  int exponent = 0;
  const size_t e = text.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    const bool is_negative = !digits.empty() && digits[0] == '-';
    if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
    for (const char digit : digits) {
      exponent = exponent * 10 + (digit - '0');
      if (exponent > kMaxExponent) return std::nullopt;
    }
    if (is_negative) exponent = -exponent;
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  std::string digits(text.substr(0, point));
  auto integers = static_cast<int>(digits.size()) + exponent;
  if (point != std::string_view::npos) digits += text.substr(point + 1);
  while (integers <= 0) {
    digits.insert(digits.begin(), '0');
    ++integers;
  }
  while (static_cast<size_t>(integers) > digits.size()) digits.push_back('0');
  out.integer = digits.substr(0, static_cast<size_t>(integers));
  out.fraction = digits.substr(static_cast<size_t>(integers));
  out.integer.erase(0, std::min(out.integer.find_first_not_of('0'), out.integer.size() - 1));
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

Result<Regular> number_range(const NumberRange& range) {
  const auto mirrored = [](std::optional<NumberRange::Bound> bound) {
    if (bound) bound->value.negative = false;
    return bound;
  };
  const bool has_positive = !range.high || !range.high->value.negative;
  const bool has_negative = !range.low || range.low->value.negative;
  const bool low_is_negative = range.low && range.low->value.negative;
  const bool high_is_negative = range.high && range.high->value.negative;
  Regular out{{Regular::State{}}};
  // Adds the states of `part` behind the start, by its own edges or behind a minus.
  const auto join = [&out](const Regular& part, bool behind_minus) {
    const auto offset = static_cast<uint32_t>(out.states.size());
    for (const Regular::State& state : part.states) {
      out.states.push_back(state);
      for (Regular::Edge& edge : out.states.back().edges) edge.to += offset;
    }
    if (behind_minus) {
      out.states[0].edges.push_back({'-', '-', offset});
    } else {
      const auto edges = out.states[offset].edges;
      out.states[0].edges.insert(out.states[0].edges.end(), edges.begin(), edges.end());
    }
  };
  if (has_positive) {
    TRY_ASSIGN(const Regular part,
               magnitudes(low_is_negative ? std::nullopt : range.low, range.high, range));
    join(part, false);
  }
  if (has_negative) {
    // The smallest magnitude: a negative upper bound, or no zero where 0 is excluded.
    std::optional<NumberRange::Bound> least;
    if (high_is_negative || (range.high && range.high->value.is_zero() && !range.high->inclusive))
      least = mirrored(range.high);
    TRY_ASSIGN(const Regular part,
               magnitudes(least, low_is_negative ? mirrored(range.low) : std::nullopt, range));
    join(part, true);
  }
  return out;
}

}  // namespace stoker::grammar
