#include "server/responses_reader.h"

#include <string_view>
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

constexpr size_t kMaxRepeatedBytes = size_t{4} << 20;  // of a body, in its answer
constexpr size_t kMaxPairs = 16;                       // of metadata
constexpr size_t kMaxPairKeyBytes = 64;
constexpr size_t kMaxPairValueBytes = 2048;

constexpr std::string_view kSummaries[] = {"auto", "concise", "detailed"};
constexpr std::string_view kContexts[] = {"auto", "current_turn", "all_turns"};
constexpr std::string_view kReasoningModes[] = {"standard", "pro"};
constexpr std::string_view kVerbosities[] = {"low", "medium", "high"};

constexpr std::string_view kLogprobsOfText = "message.output_text.logprobs";
constexpr std::string_view kIncludes[] = {kLogprobsOfText, "reasoning.encrypted_content"};

// Members that an answer repeats, and what stands there where a body has none.
constexpr std::pair<const char*, const char*> kRepeated[] = {
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"metadata", "{}"},
    {"parallel_tool_calls", "true"},
    {"reasoning", R"({"effort":null,"summary":null})"},
    {"temperature", "null"},
    {"text", R"({"format":{"type":"text"}})"},
    {"tool_choice", R"("auto")"},
    {"tools", "[]"},
    {"top_logprobs", "0"},
    {"top_p", "null"},
    {"user", "null"},
};

// A member that is one of some words, absent or null: then empty.
Result<std::string> optional_word(const Json& object, const char* name, const std::string& param,
                                  std::span<const std::string_view> words) {
  const Json* value = find_member(object, name);
  if (value == nullptr) return std::string();
  return word_of(*value, param + "." + name, words);
}

// What says that an answer is to be other than it is here.
Result<void> check_default(const Json& object, const char* name, const std::string& param,
                           std::span<const std::string_view> words, std::string_view standard) {
  TRY_ASSIGN(const std::string word, optional_word(object, name, param, words));
  if (word.empty() || word == standard) return {};
  return not_supported(param + "." + name, "anything but " + std::string(standard) + " is");
}

Result<void> check_string(const Json& value, const char* name) {
  if (!value.is_string()) return wrong_value(name, "a string", value);
  return {};
}

}  // namespace

Result<void> read_instructions(const Json& value, RequestDraft& draft) {
  if (auto checked = check_string(value, "instructions"); !checked) return checked;
  draft.system = {value.as_string()};
  return {};
}

Result<void> read_max_output_tokens(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.max_tokens, read_count_from_1(value, "max_output_tokens"));
  return {};
}

// The reasoning is told whole: nobody sums it up.
Result<void> read_reasoning_config(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("reasoning", "an object", value);
  TRY_ASSIGN(auto effort, optional_string(value, "effort", "reasoning"));
  if (effort) draft.chat.reasoning_effort = *std::move(effort);
  for (const char* name : {"summary", "generate_summary"}) {
    if (auto word = optional_word(value, name, "reasoning", kSummaries); !word)
      return std::move(word).error();
  }
  TRY_ASSIGN(const std::string context, optional_word(value, "context", "reasoning", kContexts));
  if (context == "all_turns") draft.chat.keep_reasoning = true;
  return check_default(value, "mode", "reasoning", kReasoningModes, "standard");
}

Result<void> read_text_config(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("text", "an object", value);
  if (const Json* format = find_member(value, "format")) {
    if (auto read = read_flat_format(*format, "text.format", draft); !read) return read;
  }
  return check_default(value, "verbosity", "text", kVerbosities, "medium");
}

Result<void> read_pairs(const Json& value, RequestDraft& /*draft*/) {
  if (!value.is_object() || value.members().size() > kMaxPairs)
    return wrong_value("metadata", "an object of at most 16 members", value);
  for (const auto& [key, text] : value.members()) {
    const std::string param = "metadata." + key.substr(0, kMaxPairKeyBytes);
    if (key.size() > kMaxPairKeyBytes) {
      return Error{ErrorCode::kInvalidArgument, param + ": expected a key of at most 64 bytes",
                   param};
    }
    if (!text.is_string() || text.as_string().size() > kMaxPairValueBytes)
      return wrong_value(param, "a string of at most 2048 bytes", text);
  }
  return {};
}

Result<void> read_store(const Json& value, RequestDraft& /*draft*/) {
  if (!value.is_bool()) return wrong_value("store", "a boolean", value);
  return {};
}

Result<void> read_include(const Json& value, RequestDraft& draft) {
  if (!value.is_array()) return wrong_value("include", "an array of strings", value);
  for (size_t i = 0; i < value.items().size(); ++i) {
    TRY_ASSIGN(const std::string word, word_of(value.items()[i], item_of("include", i), kIncludes));
    if (word == kLogprobsOfText) draft.parsed.form.logprobs = true;
  }
  return {};
}

Result<void> read_prompt_cache_key(const Json& value, RequestDraft& /*draft*/) {
  return check_string(value, "prompt_cache_key");
}

Result<void> read_safety_identifier(const Json& value, RequestDraft& /*draft*/) {
  return check_string(value, "safety_identifier");
}

Result<std::string> repeated_members(const Json& body) {
  std::string out;
  for (const auto& [name, absent] : kRepeated) {
    const Json* value = find_member(body, name);
    out += (out.empty() ? "\"" : ",\"") + std::string(name) +
           "\":" + (value == nullptr ? absent : value->dump());
    if (out.size() > kMaxRepeatedBytes) {
      return Error{ErrorCode::kInvalidArgument,
                   std::string(name) + ": expected at most " + std::to_string(kMaxRepeatedBytes) +
                       " bytes in all that the answer repeats",
                   name};
    }
  }
  return out;
}

}  // namespace stoker
