// What a caller asks for: a prompt, how to sample, when to stop. Plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace stoker {

// The most that one request may ask for.
inline constexpr int32_t kMaxChoices = 128;
inline constexpr int32_t kMaxLogprobs = 20;
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 256;
inline constexpr size_t kMaxIdsInLists = 1024;  ///< of logit_bias, stop_token_ids and bad_words
inline constexpr size_t kMaxSaltBytes = 256;
inline constexpr int32_t kMaxPatternSize = 1024;  ///< of repetition_detection

/// The priority of work that gives way: it is served behind all others.
inline constexpr int32_t kBackgroundPriority = INT32_MAX;

/// How tokens are chosen, in the order of docs/numerics.md. What is not given comes from the
/// checkpoint's generation_config.json, and where that is silent from the value in brackets.
/// Source: tools/reference/v41/sampling.py.
struct SamplingParams {
  std::optional<double> temperature;  ///< >= 0; 0 takes the largest logit [1]
  std::optional<double> top_p;        ///< in (0, 1]; 1 is off [1]
  std::optional<int32_t> top_k;       ///< >= 1; 0 and -1 are off [0]
  std::optional<double> min_p;        ///< in [0, 1]; 0 is off [0]
  std::optional<uint64_t> seed;       ///< [drawn, and told by Stream::seed]

  /// In [1e-6, 1e6]; divides the logits of ids that the prompt or the answer has; 1 is off [1].
  std::optional<double> repetition_penalty;
  double presence_penalty = 0;   ///< in [-2, 2]; taken from the logits of ids that the answer has
  double frequency_penalty = 0;  ///< in [-2, 2]; the same, once for each time that it has them

  /// Ids with what is added to their logits, in [-100, 100]; -100 bans.
  std::map<int32_t, double> logit_bias = {};
  std::vector<int32_t> allowed_token_ids = {};  ///< all others are banned; empty: all are allowed
  std::vector<int32_t> banned_token_ids = {};
  /// Texts whose tokens may not follow each other in the answer, each alone and behind a blank, at
  /// most kMaxIdsInLists of 1 to 256 bytes. The same text in other tokens is not kept out.
  std::vector<std::string> bad_words = {};
};

/// Raw text. Spellings of control tokens in it become control tokens. No BOS is put in front unless
/// `add_bos`; an empty prompt becomes BOS.
struct TextPrompt {
  std::string text;  ///< UTF-8; ill-formed parts become U+FFFD
  bool add_bos = false;
};

/// In which state a reply begins.
enum class ReplyStart {
  kText,          ///< all of it is text, and stays so
  kChat,          ///< the content of a chat's answer
  kThinking,      ///< reasoning, and content behind it
  kOpenChat,      ///< content that the prompt began
  kOpenThinking,  ///< reasoning that the prompt began
  kCalls,         ///< a block of calls that the prompt opened
};

/// As what the tokens of an answer are read. Stop strings are looked for in what is text or content
/// then.
struct ReplyFormat {
  ReplyStart start = ReplyStart::kText;
  bool has_calls = false;      ///< markup of calls is looked for
  bool one_call = false;       ///< the answer ends behind the first
  std::string only_tool = {};  ///< calls of others are dropped; empty: none are

  bool operator==(const ReplyFormat&) const = default;
};

/// A function that the model may call.
struct Tool {
  std::string name;  ///< of letters, digits, _ and -; no two alike
  std::optional<std::string> description = {};
  std::optional<std::string> parameters = {};  ///< a JSON schema, as JSON text
  /// The model is told that nothing is optional, and calls that come as it likes are held to the
  /// schema, too.
  bool strict = false;
};

/// Token ids, each in [0, vocabulary) and not the image token; at least one.
struct TokenPrompt {
  std::vector<int32_t> ids;
  ReplyFormat reply = {};
  /// Of a reply that has calls: to what they are held, as those of a ChatPrompt with these tools.
  std::vector<Tool> tools = {};
  bool must_call = false;  ///< a call comes, as with ToolChoice::Kind::kRequired
};

/// A call that an assistant made.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON of an object; what is none is told to the model as it is
};

/// One message of a conversation.
struct Message {
  std::string role;  ///< system, developer, user, assistant, tool, function or latest_reminder
  std::vector<std::string> content;    ///< text blocks; a plain string is one block, null is none
  std::string reasoning_content = {};  ///< of an assistant message; may be empty
  std::vector<ToolCall> tool_calls = {};  ///< likewise
  std::string tool_call_id = {};          ///< of a tool's result: the call that it answers
};

/// Whether the answer has calls.
struct ToolChoice {
  enum class Kind {
    kAuto,      ///< as the model likes
    kNone,      ///< as if there were no tools
    kRequired,  ///< at least one
    kNamed,     ///< of that tool
  };
  Kind kind = Kind::kAuto;
  std::string name = {};  ///< of kNamed
};

/// A conversation to be answered. Control tokens come from the template alone: their spellings in
/// message text are text.
struct ChatPrompt {
  std::vector<Message> messages;
  std::optional<std::string> thinking;  ///< "enabled", "disabled" or "adaptive" [enabled]
  std::optional<std::string>
      reasoning_effort;         ///< "none" .. "max", or a number from 1 to 100 in decimal [75]
  bool keep_reasoning = false;  ///< old reasoning stays in the prompt, as it does with tools
  std::vector<Tool> tools = {};
  ToolChoice tool_choice = {};
  bool parallel_tool_calls = true;  ///< false: the answer ends behind its first call
  bool continue_last = false;  ///< the answer goes on where the last message, an assistant's, ends
};

/// What is to be continued or answered.
using Prompt = std::variant<TextPrompt, TokenPrompt, ChatPrompt>;

/// The form that an answer must have: nothing else is chosen. Of a chat with thinking its content,
/// behind the reasoning. docs/structured.md says what is supported.
struct Structure {
  enum class Kind { kNone, kJsonObject, kJsonSchema, kRegex, kChoice, kGrammar };
  Kind kind = Kind::kNone;
  std::string text = {};  ///< the schema as JSON text, the expression, or the grammar in EBNF
  std::vector<std::string> choices = {};       ///< of kChoice
  bool any_whitespace = true;                  ///< of JSON; false: as Python writes it
  bool disable_additional_properties = false;  ///< of kJsonSchema: no others, unless it says so
  bool is_shown = false;                       ///< the prompt of a chat tells the form of JSON, too
};

/// An answer ends where it repeats itself: its last tokens are a pattern of min_pattern_size to
/// max_pattern_size tokens, min_count times over. Not before min_tokens.
struct RepetitionDetection {
  int32_t max_pattern_size = 0;  ///< 0 to kMaxPatternSize; 0: off
  int32_t min_pattern_size = 0;  ///< 0, which is 1, to max_pattern_size
  int32_t min_count = 0;         ///< at least 2, unless it is off

  bool operator==(const RepetitionDetection&) const = default;
};

/// A request. Validated by Engine::submit, whose error names the field as the HTTP interface spells
/// it.
struct Request {
  Prompt prompt;
  SamplingParams sampling;
  /// Answers to the prompt, 1 to kMaxChoices. Choice 0 is the answer that n = 1 gives; the others
  /// have seeds of their own (Finish::seed).
  int32_t n = 1;
  /// >= 1: no more of the prompt's tokens than the last so many are read; -1: than leave room for
  /// max_tokens, or for one token without it [all].
  std::optional<int32_t> truncate_prompt_tokens;
  std::optional<int32_t> max_tokens;  ///< >= 1 [what is left of the context]
  int32_t min_tokens = 0;  ///< before these neither end of text nor a stop; at most max_tokens
  /// At most kMaxStops strings of 1 to kMaxStopBytes bytes, looked for in the content; the text is
  /// cut before the match that ends first.
  std::vector<std::string> stop;
  bool stop_everywhere = false;  ///< looked for in reasoning and calls too, as they were written
  bool include_stop_str_in_output = false;  ///< cut behind the match instead
  std::vector<int32_t> stop_token_ids;      ///< end the answer too; their text is not shown
  Structure structure;
  /// >= 0: tokens of reasoning, where the answer begins with it, behind which its end comes; more
  /// only where a call begins in it [as many as the model likes].
  std::optional<int32_t> thinking_token_budget;
  std::optional<RepetitionDetection> repetition_detection;  ///< [off]
  bool ignore_eos = false;  ///< the end of text is a token like others
  /// Lower is served first. Not 0 only with EngineOptions::use_priorities, but for
  /// kBackgroundPriority.
  int32_t priority = 0;
  std::optional<std::chrono::milliseconds>
      timeout;             ///< > 0; from submission on: it then ends with kDeadlineExceeded
  std::string cache_salt;  ///< cached prefixes are shared under the same salt alone; <= 256 bytes
  /// Event::details, and how many of the likeliest tokens with each: 0 to kMaxLogprobs.
  std::optional<int32_t> logprobs;
  /// Event::prompt_logprobs, the same; reads no cached prefix.
  std::optional<int32_t> prompt_logprobs;
  bool return_progress = false;  ///< Event::prompt_progress
  bool speculate = true;  ///< drafts may be made for it (stoker/speculation.h); no token changes
  bool receipt = false;   ///< Finish::receipt (stoker/receipt.h)
};

}  // namespace stoker
