#include "grammar/regular.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

namespace stoker::grammar {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

uint32_t successor(const Regular& a, uint32_t state, uint8_t byte) {
  if (state == kNone) return kNone;
  for (const Regular::Edge& edge : a.states[state].edges)
    if (edge.first <= byte && byte <= edge.last) return edge.to;
  return kNone;
}

// Joins neighbours with the same target.
void append_edge(std::vector<Regular::Edge>& edges, uint8_t byte, uint32_t to) {
  if (!edges.empty() && edges.back().to == to && edges.back().last + 1 == byte) {
    edges.back().last = byte;
  } else {
    edges.push_back({byte, byte, to});
  }
}

// Without the states from which nothing is accepted, and edges to them; the start stays.
Regular trimmed(const Regular& a) {
  std::vector<std::vector<uint32_t>> sources(a.states.size());
  std::vector<uint32_t> work;
  std::vector<bool> useful(a.states.size(), false);
  for (uint32_t s = 0; s < a.states.size(); ++s) {
    for (const Regular::Edge& edge : a.states[s].edges) sources[edge.to].push_back(s);
    if (!a.states[s].accepts) continue;
    useful[s] = true;
    work.push_back(s);
  }
  while (!work.empty()) {
    const uint32_t s = work.back();
    work.pop_back();
    for (const uint32_t source : sources[s]) {
      if (useful[source]) continue;
      useful[source] = true;
      work.push_back(source);
    }
  }
  std::vector<uint32_t> number(a.states.size(), kNone);
  uint32_t count = 1;
  number[0] = 0;
  for (uint32_t s = 1; s < a.states.size(); ++s)
    if (useful[s]) number[s] = count++;
  Regular out;
  out.states.resize(count);
  for (uint32_t s = 0; s < a.states.size(); ++s) {
    if (number[s] == kNone) continue;
    Regular::State& state = out.states[number[s]];
    state.accepts = a.states[s].accepts;
    for (const Regular::Edge& edge : a.states[s].edges)
      if (useful[edge.to]) state.edges.push_back({edge.first, edge.last, number[edge.to]});
  }
  return out;
}

// The product of two automata; `b` may have died (kNone), `a` not. Accepts where a does and b
// does as `wanted` says.
Result<Regular> product(const Regular& a, const Regular& b, bool wanted) {
  Regular out;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> number;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const auto number_of = [&](uint32_t in_a, uint32_t in_b) {
    const auto [at, is_new] = number.try_emplace({in_a, in_b}, static_cast<uint32_t>(pairs.size()));
    if (is_new) pairs.emplace_back(in_a, in_b);
    return at->second;
  };
  number_of(0, 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.size() > kMaxRegularStates) {
      return Error{ErrorCode::kInvalidArgument,
                   "the constraints on a string together need more than " +
                       std::to_string(kMaxRegularStates) + " states",
                   {}};
    }
    const auto [in_a, in_b] = pairs[i];
    Regular::State state;
    state.accepts = a.states[in_a].accepts && (in_b != kNone && b.states[in_b].accepts) == wanted;
    for (const Regular::Edge& edge : a.states[in_a].edges) {
      for (int byte = edge.first; byte <= edge.last; ++byte) {
        const uint32_t next_b = successor(b, in_b, static_cast<uint8_t>(byte));
        if (wanted && next_b == kNone) continue;
        append_edge(state.edges, static_cast<uint8_t>(byte), number_of(edge.to, next_b));
      }
    }
    out.states.push_back(std::move(state));
  }
  return trimmed(out);
}

// Edges of state `from` for the first byte of a character, where a whole character of two bytes or
// more leads to `to`; the states between are added.
void add_multibyte(Regular& out, uint32_t from, uint32_t to) {
  struct Lead {
    uint8_t first, last, next_first, next_last;
    int more;
  };
  constexpr std::array<Lead, 8> kLeads = {{{0xC2, 0xDF, 0x80, 0xBF, 0},
                                           {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                           {0xE1, 0xEC, 0x80, 0xBF, 1},
                                           {0xED, 0xED, 0x80, 0x9F, 1},
                                           {0xEE, 0xEF, 0x80, 0xBF, 1},
                                           {0xF0, 0xF0, 0x90, 0xBF, 2},
                                           {0xF1, 0xF3, 0x80, 0xBF, 2},
                                           {0xF4, 0xF4, 0x80, 0x8F, 2}}};
  const auto tail1 = static_cast<uint32_t>(out.states.size());
  const uint32_t tail2 = tail1 + 1;
  out.states.push_back({false, {{0x80, 0xBF, to}}});
  out.states.push_back({false, {{0x80, 0xBF, tail1}}});
  const std::array<uint32_t, 3> after = {to, tail1, tail2};
  for (const Lead& lead : kLeads) {
    const auto middle = static_cast<uint32_t>(out.states.size());
    out.states.push_back(
        {false, {{lead.next_first, lead.next_last, after[static_cast<size_t>(lead.more)]}}});
    out.states[from].edges.push_back({lead.first, lead.last, middle});
  }
}

// Writes the states of json_spelling, one after the other.
class Speller {
 public:
  explicit Speller(size_t num_states) { out_.states.resize(num_states); }

  void begin_state(uint32_t state, bool accepts) {
    state_ = state;
    out_.states[state].accepts = accepts;
    escape_ = kNone;
    unicode_ = {kNone, kNone};
  }

  // The state's edge for a decoded byte; bytes come in order.
  void add(uint8_t byte, uint32_t to) {
    if (byte >= 0x20 && byte != '"' && byte != '\\')
      return append_edge(out_.states[state_].edges, byte, to);
    if (escape_ == kNone) escape_ = add_edge(state_, '\\');
    constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t";
    constexpr std::string_view kShortEscapes = "\"\\bfnrt";
    const size_t at = kMeanings.find(static_cast<char>(byte));
    if (at != std::string_view::npos) {
      const auto letter = static_cast<uint8_t>(kShortEscapes[at]);
      out_.states[escape_].edges.push_back({letter, letter, to});
    } else {
      add_unicode(byte, to);
    }
  }

  Regular take() { return std::move(out_); }

 private:
  // A new state behind a byte.
  uint32_t add_edge(uint32_t from, uint8_t byte) {
    const auto to = static_cast<uint32_t>(out_.states.size());
    out_.states.emplace_back();
    out_.states[from].edges.push_back({byte, byte, to});
    return to;
  }

  // A control character by \u00 and two digits, in either case.
  void add_unicode(uint8_t byte, uint32_t to) {
    if (unicode_[0] == kNone) {
      const uint32_t zeros = add_edge(add_edge(add_edge(escape_, 'u'), '0'), '0');
      unicode_ = {add_edge(zeros, '0'), add_edge(zeros, '1')};
    }
    std::vector<Regular::Edge>& edges = out_.states[unicode_[byte >> 4]].edges;
    const auto digit = static_cast<uint8_t>("0123456789abcdef"[byte & 15]);
    edges.push_back({digit, digit, to});
    if (digit < 'a') return;
    const auto upper = static_cast<uint8_t>(digit - 'a' + 'A');
    edges.push_back({upper, upper, to});
  }

  Regular out_;
  uint32_t state_ = 0;
  uint32_t escape_ = kNone;                           // behind a backslash
  std::array<uint32_t, 2> unicode_ = {kNone, kNone};  // behind \u000 and \u001
};

}  // namespace

Result<Regular> intersection(const Regular& a, const Regular& b) {
  return product(a, b, true);
}

Result<Regular> difference(const Regular& a, const Regular& b) {
  return product(a, b, false);
}

bool is_empty(const Regular& a) {
  const Regular useful = trimmed(a);
  return !useful.states[0].accepts && useful.states[0].edges.empty();
}

bool contains(const Regular& a, std::string_view bytes) {
  uint32_t state = 0;
  for (const char c : bytes) state = successor(a, state, static_cast<uint8_t>(c));
  return state != kNone && a.states[state].accepts;
}

Regular regular_utf8() {
  Regular out;
  out.states.push_back({true, {{0x00, 0x7F, 0}}});
  add_multibyte(out, 0, 0);
  return out;
}

Regular regular_text_without(std::string_view stop) {
  // State i: the longest prefix of `stop` that the text ends with has i bytes.
  Regular search;
  const auto length = static_cast<uint32_t>(stop.size());
  std::vector<std::array<uint32_t, 256>> next(length);
  uint32_t fallback = 0;
  for (uint32_t i = 0; i < length; ++i) {
    const auto wanted = static_cast<uint8_t>(stop[i]);
    if (i == 0) {
      next[0].fill(0);
    } else {
      next[i] = next[fallback];
      fallback = next[fallback][wanted];
    }
    next[i][wanted] = i + 1;
  }
  for (uint32_t i = 0; i < length; ++i) {
    Regular::State state{true, {}};
    for (int byte = 0; byte < 256; ++byte) {
      const uint32_t to = next[i][static_cast<size_t>(byte)];
      if (to < length) append_edge(state.edges, static_cast<uint8_t>(byte), to);
    }
    search.states.push_back(std::move(state));
  }
  // Ten states of UTF-8 times the marker's length: under the limit for markers of a kilobyte.
  Result<Regular> both = product(regular_utf8(), search, true);
  return both ? *std::move(both) : Regular{{Regular::State{}}};
}

Regular regular_of_strings(const std::vector<std::string_view>& strings) {
  Regular out;
  out.states.emplace_back();
  for (const std::string_view string : strings) {
    uint32_t state = 0;
    for (const char c : string) {
      const auto byte = static_cast<uint8_t>(c);
      uint32_t to = successor(out, state, byte);
      if (to == kNone) {
        to = static_cast<uint32_t>(out.states.size());
        out.states[state].edges.push_back({byte, byte, to});
        out.states.emplace_back();
      }
      state = to;
    }
    out.states[state].accepts = true;
  }
  return out;
}

Result<Regular> regular_length(uint32_t min, uint32_t max) {
  const uint32_t last = max == kUnbounded ? min : max;
  if (last > kMaxRegularStates / 12) {
    return Error{ErrorCode::kInvalidArgument,
                 "a length of at most " + std::to_string(kMaxRegularStates / 12) +
                     " together with other constraints, found " + std::to_string(last),
                 {}};
  }
  Regular out;
  out.states.resize(last + 1);
  for (uint32_t i = 0; i <= last; ++i) {
    out.states[i].accepts = i >= min;
    if (i == last && max != kUnbounded) break;
    const uint32_t to = std::min(i + 1, last);
    out.states[i].edges.push_back({0x00, 0x7F, to});
    add_multibyte(out, i, to);
  }
  return out;
}

Regular json_spelling(const Regular& a) {
  Speller speller(a.states.size());
  for (uint32_t s = 0; s < a.states.size(); ++s) {
    speller.begin_state(s, a.states[s].accepts);
    for (int byte = 0; byte < 256; ++byte) {
      const uint32_t to = successor(a, s, static_cast<uint8_t>(byte));
      if (to != kNone) speller.add(static_cast<uint8_t>(byte), to);
    }
  }
  return trimmed(speller.take());
}

}  // namespace stoker::grammar
