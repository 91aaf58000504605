// The one shape of tokenizer.json that this tokenizer is exact for.
#pragma once

#include <string>

#include "base/json.h"
#include "stoker/result.h"

namespace stoker {

/// Compares everything of the file but the contents of its vocabulary, merges and added tokens,
/// byte for byte, with the released file: another pre-tokenizer would give fluent but different
/// ids, which no later check finds. A null member may be left out, and so may model.ignore_merges
/// and model.byte_fallback, which are false then. Errors: kUnsupported.
Result<void> check_tokenizer_shape(const Json& root);

/// The same for one item of added_tokens: its members, and that its whitespace and word flags are
/// false. Errors: kUnsupported.
Result<void> check_added_token_shape(const Json& item, const std::string& place);

/// The error of a member that is not what it must be: "place: expected ..., found ...".
Error unexpected(ErrorCode code, const std::string& place, const std::string& expected,
                 const Json* found);

}  // namespace stoker
