#include "server/answer_json.h"

#include "base/json.h"

namespace stoker {

std::string named_event(const char* name, const std::string& members) {
  return std::string("event: ") + name + "\ndata: {\"type\":\"" + name + "\"" +
         (members.empty() ? "" : ",") + members + "}\n\n";
}

std::string ids_json(const std::vector<int32_t>& ids) {
  std::string out = "[";
  for (const int32_t id : ids) {
    if (out.size() > 1) out += ",";
    out += std::to_string(id);
  }
  return out + "]";
}

std::string seed_json(uint64_t seed) {
  return std::to_string(static_cast<int64_t>(seed));
}

std::string finish_members(const Finish& finish, FinishReason reason) {
  std::string stop = "null";
  if (finish.stop) stop = json_quote(*finish.stop);
  if (finish.stop_token) stop = std::to_string(*finish.stop_token);
  return "\"finish_reason\":" + json_quote(to_string(reason)) + ",\"stop_reason\":" + stop;
}

// What parse_receipt reads is JSON already.
std::string receipt_member(const Finish& finish) {
  return finish.receipt.empty() ? "" : ",\"receipt\":" + finish.receipt;
}

std::string usage_json(const Usage& usage, bool is_whole) {
  const int64_t total = int64_t{usage.prompt_tokens} + usage.completion_tokens;
  std::string out = "{\"prompt_tokens\":" + std::to_string(usage.prompt_tokens) +
                    ",\"completion_tokens\":" + std::to_string(usage.completion_tokens) +
                    ",\"total_tokens\":" + std::to_string(total);
  if (is_whole) {
    out += ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) +
           "},\"completion_tokens_details\":{\"reasoning_tokens\":" +
           std::to_string(usage.reasoning_tokens) +
           "},\"prompt_cache_hit_tokens\":" + std::to_string(usage.cached_tokens) +
           ",\"prompt_cache_miss_tokens\":" +
           std::to_string(usage.prompt_tokens - usage.cached_tokens);
  }
  return out + "}";
}

}  // namespace stoker
