// Regular expressions in ECMA-262's notation as grammars (docs/structured.md has the subset). What
// is not regular, or cannot be decided by what was read so far (look-around, back references, word
// borders, anchors within), is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "stoker/result.h"

namespace stoker::grammar {

enum class RegexMatch {
  kWhole,   ///< the whole text matches
  kSearch,  ///< some part of it does, as JSON Schema's `pattern` has it
};

/// Adds an expression, over the UTF-8 of texts, to a grammar. Errors: kInvalidArgument and
/// kUnsupported with the byte offset in the expression.
Result<NodeId> add_regex(GrammarBuilder& builder, std::string_view expression, RegexMatch match);

/// The texts that match as a whole. Errors: as add_regex, and kInvalidArgument, too large.
Result<Grammar> from_regex(std::string_view expression);

/// One of the texts, byte for byte. Error: kInvalidArgument for an empty list, or too large.
Result<Grammar> from_choice(const std::vector<std::string>& texts);

}  // namespace stoker::grammar
