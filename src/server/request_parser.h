// The JSON bodies of the routes that ask the engine to requests of the door.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

enum class Route {
  kCompletions,
  kChat,
  kMessages,     ///< Anthropic's
  kCountTokens,  ///< what it would read, with the same body; max_tokens may be absent
  kResponses,
  kGenerate,  ///< token ids in, token ids out
};

/// In which shape a body wants its answer, and what is to be told. A plain value.
struct AnswerForm {
  Route route = Route::kCompletions;
  std::string model;              ///< the served name that answers
  int32_t num_choices = 1;        ///< that are told of each prompt: the n best, if it asks for more
  bool logprobs = false;          ///< are told, too
  int32_t num_top = 0;            ///< of the likeliest tokens, with each of them
  bool prompt_logprobs = false;   ///< are told apart
  bool echo = false;              ///< the prompt in front of the answer
  bool has_answer = true;         ///< false: the prompt alone is scored (max_tokens 0, with echo)
  bool include_reasoning = true;  ///< of a chat
  bool names_tool = false;        ///< tool_choice is a tool
  bool return_token_ids = false;  ///< of prompt and answer
  bool all_logprobs = false;      ///< of a chat: of every token, in one list
  bool tokens_as_ids = false;     ///< in log-probabilities "token_id:7" for the text of 7
  bool stream = false;
  bool include_usage = false;           ///< a last chunk with the usage
  bool continuous_usage_stats = false;  ///< the usage so far in every chunk
  bool metrics = false;                 ///< times of the request beside the usage
  std::string repeated;  ///< of a response: members of its request that it has too, as JSON
};

/// A body that was understood. A plain value.
struct ParsedRequest {
  AnswerForm form;
  std::vector<Request> requests;            ///< one for each prompt, in order; at least one
  std::optional<std::string> request_id;    ///< for the ids, where no header gives one
  std::vector<std::string> unknown_fields;  ///< names that no table knows, at most 16
};

/// `model_names` are the names the model is served under, at least one; the first is the default.
/// Errors: kInvalidArgument and kUnsupported with the field at fault, kNotFound for another model.
/// Thread-safe.
Result<ParsedRequest> parse_request(Route route, std::string_view body,
                                    const std::vector<std::string>& model_names);

/// The same of a body that was read as JSON already.
Result<ParsedRequest> parse_request(Route route, const Json& body,
                                    const std::vector<std::string>& model_names);

/// What is wrong with the "model" of a body that is read otherwise: kInvalidArgument for a body
/// that is no object or a name that is no string, kNotFound for a name that is not served.
Result<void> check_model(const Json& body, const std::vector<std::string>& model_names);

}  // namespace stoker
