// What a caller asks for: a prompt, how to sample, when to stop. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace stoker {

/// How tokens are chosen. What is not given comes from the checkpoint's generation_config.json, and
/// where that is silent from the value in brackets. Source: tools/reference/v41/sampling.py.
struct SamplingParams {
  std::optional<double> temperature;  ///< >= 0; 0 takes the largest logit [1]
  std::optional<double> top_p;        ///< in (0, 1]; 1 is off [1]
  std::optional<int32_t> top_k;       ///< >= 1; 0 and -1 are off [0]
  std::optional<uint64_t> seed;       ///< [drawn, and told by Stream::seed]
};

/// Raw text. Spellings of control tokens in it become control tokens. No BOS is put in front unless
/// `add_bos`; an empty prompt becomes BOS.
struct TextPrompt {
  std::string text;  ///< UTF-8; ill-formed parts become U+FFFD
  bool add_bos = false;
};

/// Token ids, each in [0, vocabulary) and not the image token; at least one.
struct TokenPrompt {
  std::vector<int32_t> ids;
};

/// One message of a conversation.
struct Message {
  std::string role;                  ///< system, developer, user, assistant or latest_reminder
  std::vector<std::string> content;  ///< text blocks; a plain string is one block, null is none
  std::string reasoning_content;     ///< of an assistant message; may be empty
};

/// A conversation to be answered. Control tokens come from the template alone: their spellings in
/// message text are text.
struct ChatPrompt {
  std::vector<Message> messages;
  std::optional<std::string> thinking;  ///< "enabled", "disabled" or "adaptive" [enabled]
  std::optional<std::string>
      reasoning_effort;  ///< "none" .. "max", or a number from 1 to 100 in decimal [75]
};

/// A request. Validated by Engine::submit, whose error names the field as the HTTP interface spells
/// it.
struct Request {
  std::variant<TextPrompt, TokenPrompt, ChatPrompt> prompt;
  SamplingParams sampling;
  std::optional<int32_t> max_tokens;  ///< >= 1 [what is left of the context]
  std::vector<std::string>
      stop;  ///< at most 16 strings of 1 to 256 bytes; the text is cut before the first match
  int32_t priority = 0;  ///< lower is served first; not 0 only with EngineOptions::use_priorities
  std::optional<std::chrono::milliseconds>
      timeout;             ///< > 0; from submission on: it then ends with kDeadlineExceeded
  std::string cache_salt;  ///< cached prefixes are shared under the same salt alone; <= 256 bytes
  bool prompt_logprobs = false;  ///< Event::prompt_logprobs; reads no cached prefix
};

}  // namespace stoker
