#include "grammar/schema_values.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/try.h"
#include "grammar/formats.h"
#include "grammar/nfa.h"
#include "grammar/regex.h"
#include "grammar/regular.h"

namespace stoker::grammar {
namespace {

constexpr uint32_t kMaxCount = 100'000;
constexpr uint64_t kMaxMultiple = 1000;

Result<Regular> texts_matching(const std::string& expression, RegexMatch match) {
  GrammarBuilder builder;
  TRY_ASSIGN(const NodeId root, add_regex(builder, expression, match));
  TRY_ASSIGN(const Grammar grammar, std::move(builder).finish(root));
  Result<Regular> texts = to_regular(grammar);
  // What allows nothing is an automaton that accepts nothing.
  if (!texts && texts.error().message == kNothingAllowed) return Regular{{Regular::State{}}};
  return texts;
}

Error at_pointer(Error error, const std::string& pointer) {
  error.message = "schema at " + pointer + ": " + error.message;
  return error;
}

// Adds the texts of one keyword to those so far.
Result<void> restrict(std::optional<Regular>& texts, Result<Regular> more,
                      const std::string& pointer) {
  if (!more) return at_pointer(std::move(more).error(), pointer);
  if (texts) more = intersection(*texts, *more);
  if (!more) return at_pointer(std::move(more).error(), pointer);
  texts = *std::move(more);
  return {};
}

Result<std::optional<Decimal>> decimal_of(const Part& part, const char* keyword) {
  const Json* value = part.schema->find(keyword);
  if (value == nullptr) return std::optional<Decimal>();
  std::optional<Decimal> decimal;
  if (value->is_number()) decimal = parse_decimal(value->as_string());
  if (decimal) return decimal;
  return schema_error(ErrorCode::kInvalidArgument, child_pointer(part.pointer, keyword),
                      "expected a number from -1e300 to 1e300, found " + value->dump());
}

// Keeps the tighter of two bounds; `sign` 1: lower bounds, -1: upper ones.
void tighten(std::optional<NumberRange::Bound>& bound, NumberRange::Bound more, int sign) {
  if (bound) {
    const int order = sign * compare(more.value, bound->value);
    if (order < 0 || (order == 0 && !bound->inclusive)) return;
  }
  bound = std::move(more);
}

// The divisor of `multipleOf`; 0 without one.
Result<uint32_t> multiple_of(const Part& part) {
  TRY_ASSIGN(const std::optional<Decimal> step, decimal_of(part, "multipleOf"));
  if (!step) return 0U;
  const std::string pointer = child_pointer(part.pointer, "multipleOf");
  if (step->negative || step->is_zero())
    return schema_error(ErrorCode::kInvalidArgument, pointer, "expected a number above 0");
  if (!step->is_integer() || step->integer.size() > 4 || std::stoul(step->integer) > kMaxMultiple) {
    return schema_error(ErrorCode::kUnsupported, pointer,
                        "expected an integer of at most " + std::to_string(kMaxMultiple));
  }
  return static_cast<uint32_t>(std::stoul(step->integer));
}

}  // namespace

Result<std::optional<uint32_t>> count_of(const std::vector<Part>& own, const char* keyword,
                                         bool is_lower) {
  std::optional<uint32_t> count;
  for (const Part& part : own) {
    const Json* value = part.schema->find(keyword);
    if (value == nullptr) continue;
    std::optional<Decimal> decimal;
    if (value->is_number()) decimal = parse_decimal(value->as_string());
    const std::string pointer = child_pointer(part.pointer, keyword);
    if (!decimal || decimal->negative || !decimal->is_integer()) {
      return schema_error(ErrorCode::kInvalidArgument, pointer,
                          "expected a count, found " + value->dump());
    }
    if (decimal->integer.size() > 6 || std::stoul(decimal->integer) > kMaxCount) {
      // An upper bound that no answer reaches is none.
      if (!is_lower) continue;
      return schema_error(ErrorCode::kUnsupported, pointer,
                          "expected at most " + std::to_string(kMaxCount));
    }
    const auto found = static_cast<uint32_t>(std::stoul(decimal->integer));
    if (!count || (is_lower ? found > *count : found < *count)) count = found;
  }
  return count;
}

Result<Lengths> lengths_of(const std::vector<Part>& own) {
  TRY_ASSIGN(const std::optional<uint32_t> min, count_of(own, "minLength", true));
  TRY_ASSIGN(const std::optional<uint32_t> max, count_of(own, "maxLength", false));
  return Lengths{min.value_or(0), max.value_or(kUnbounded)};
}

Result<std::optional<Regular>> texts_of(const std::vector<Part>& own, const Lengths& lengths) {
  std::optional<Regular> texts;
  std::string last_pointer;
  for (const Part& part : own) {
    for (const char* keyword : {"pattern", "format"}) {
      const Json* value = part.schema->find(keyword);
      if (value == nullptr) continue;
      const std::string pointer = child_pointer(part.pointer, keyword);
      if (!value->is_string()) {
        return schema_error(ErrorCode::kInvalidArgument, pointer,
                            std::string("expected a string, found ") + value->kind_name());
      }
      const bool is_pattern = keyword == std::string_view("pattern");
      const char* expression =
          is_pattern ? value->as_string().c_str() : format_expression(value->as_string());
      if (expression == nullptr) continue;
      const auto match = is_pattern ? RegexMatch::kSearch : RegexMatch::kWhole;
      const std::string text = is_pattern ? value->as_string() : std::string(expression);
      if (Result<void> done = restrict(texts, texts_matching(text, match), pointer); !done)
        return std::move(done).error();
      last_pointer = pointer;
    }
  }
  if (!texts || lengths.is_any()) return texts;
  Result<void> done = restrict(texts, regular_length(lengths.min, lengths.max), last_pointer);
  if (!done) return std::move(done).error();
  return texts;
}

Result<std::optional<NumberRange>> range_of(const std::vector<Part>& own, bool integers_only) {
  NumberRange range;
  range.integers_only = integers_only;
  bool is_bounded = false;
  for (const Part& part : own) {
    struct Keyword {
      const char* name;
      bool inclusive;
      int sign;
    };
    for (const Keyword& keyword :
         {Keyword{"minimum", true, 1}, Keyword{"exclusiveMinimum", false, 1},
          Keyword{"maximum", true, -1}, Keyword{"exclusiveMaximum", false, -1}}) {
      TRY_ASSIGN(std::optional<Decimal> value, decimal_of(part, keyword.name));
      if (!value) continue;
      is_bounded = true;
      tighten(keyword.sign > 0 ? range.low : range.high, {*std::move(value), keyword.inclusive},
              keyword.sign);
    }
    TRY_ASSIGN(const uint32_t step, multiple_of(part));
    if (step == 0) continue;
    if (range.multiple_of != 1 && step != 1 && step != range.multiple_of) {
      return schema_error(ErrorCode::kUnsupported, child_pointer(part.pointer, "multipleOf"),
                          "several that differ are not supported");
    }
    range.multiple_of = std::max(range.multiple_of, step);
    range.integers_only = true;
    is_bounded = true;
  }
  if (!is_bounded) return std::optional<NumberRange>();
  return std::optional<NumberRange>(std::move(range));
}

}  // namespace stoker::grammar
