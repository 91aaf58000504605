// Grammars in EBNF, in the notation that several engines share: `root ::= "a" [b-d]+ other?`, one
// rule after another (docs/structured.md). Recursion of every kind is allowed.
#pragma once

#include <string_view>

#include "grammar/grammar.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// The texts of the rule `root`. Errors: kInvalidArgument with the byte offset of what was not
/// expected, of a rule that is not defined, or defined twice; or too large.
Result<Grammar> from_ebnf(std::string_view text);

}  // namespace stoker::grammar
