// Set operations on finite automata over bytes, for grammars that need them: two constraints on one
// string at a time, all names but those that are declared, text that does not contain a marker.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// States that any of these makes at most; more is kInvalidArgument.
inline constexpr size_t kMaxRegularStates = 8'000;

/// What the expressions of a grammar without recursion and shared rules allow, as one automaton.
/// Errors: kInvalidArgument beyond kMaxRegularStates, and kUnsupported for a rule that is called.
Result<Regular> to_regular(const Grammar& grammar);

/// Strings of both.
Result<Regular> intersection(const Regular& a, const Regular& b);
/// Strings of a that are not of b.
Result<Regular> difference(const Regular& a, const Regular& b);
bool is_empty(const Regular& a);
bool contains(const Regular& a, std::string_view bytes);

/// Well-formed UTF-8.
Regular regular_utf8();
/// Well-formed UTF-8 that does not contain `stop` (not empty).
Regular regular_text_without(std::string_view stop);
/// The strings given, and no others.
Regular regular_of_strings(const std::vector<std::string_view>& strings);
/// Well-formed UTF-8 of min .. max code points; max may be kUnbounded. Error: kInvalidArgument
/// beyond kMaxRegularStates.
Result<Regular> regular_length(uint32_t min, uint32_t max);

/// The contents of JSON strings (without the quotes) that decode to strings of `a`, each in one
/// spelling: `"`, `\` and control characters by the short escape where there is one, else by
/// \u00XX, and all else as it is.
Regular json_spelling(const Regular& a);

}  // namespace stoker::grammar
