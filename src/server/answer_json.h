// Pieces of JSON and of event streams that answers of several shapes have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/events.h"

namespace stoker {

/// A server-sent event with that name, whose data is an object with the name as its "type" and
/// those members, which may be none.
std::string named_event(const char* name, const std::string& members);

/// The event behind which a stream of OpenAI's older interfaces has nothing.
inline constexpr const char* kDoneEvent = "data: [DONE]\n\n";

/// [1,2,3].
std::string ids_json(const std::vector<int32_t>& ids);

/// As the signed number that, sent back as `seed`, gives the same answer.
std::string seed_json(uint64_t seed);

/// "finish_reason":...,"stop_reason":...: the reason, and the string or token that was met.
std::string finish_members(const Finish& finish, FinishReason reason);

/// ,"receipt":... where there is one; else nothing.
std::string receipt_member(const Finish& finish);

/// {"prompt_tokens": ...}. Which tokens were reasoning is known, and told, only of a whole answer.
std::string usage_json(const Usage& usage, bool is_whole);

}  // namespace stoker
