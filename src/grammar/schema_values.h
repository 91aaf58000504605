// What schemas say about strings and numbers: which texts, which spellings.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/decimal_range.h"
#include "grammar/grammar.h"
#include "grammar/schema_parts.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// A keyword that counts, of schemas that all hold: the largest value for a lower bound, the
/// smallest for an upper one. Errors: kInvalidArgument for what is no count, kUnsupported beyond
/// 100,000.
Result<std::optional<uint32_t>> count_of(const std::vector<Part>& own, const char* keyword,
                                         bool is_lower);

/// Lengths of strings, in code points.
struct Lengths {
  uint32_t min = 0;
  uint32_t max = kUnbounded;
  bool is_any() const { return min == 0 && max == kUnbounded; }
};
Result<Lengths> lengths_of(const std::vector<Part>& own);

/// The texts that `pattern` and `format` allow, of the lengths given; none where neither is there.
/// Errors: those of expressions, with the pointer.
Result<std::optional<Regular>> texts_of(const std::vector<Part>& own, const Lengths& lengths);

/// The range of numbers; none where nothing bounds them. Errors: kInvalidArgument for a bound that
/// is no number, kUnsupported for a `multipleOf` that is not held.
Result<std::optional<NumberRange>> range_of(const std::vector<Part>& own, bool integers_only);

}  // namespace stoker::grammar
