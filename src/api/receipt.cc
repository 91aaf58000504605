#include "api/receipt.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/structure.h"
#include "base/json.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr size_t kMaxShownNameBytes = 100;  // of a name that a receipt gives

std::string shown_name(const std::string& name) {
  return json_quote(name.substr(0, kMaxShownNameBytes));
}

// As far as it decides an answer.
Tool told_tool(const chat::Tool& tool) {
  Tool out;
  out.name = tool.name;
  if (tool.parameters) out.parameters = tool.parameters->dump();
  out.strict = tool.strict;
  return out;
}

// Ids of the answer: those of the prompt are looked at when it is submitted.
Result<void> check_answer_ids(const Receipt& receipt, const ModelInfo& model) {
  for (size_t i = 0; i < receipt.ids.size(); ++i) {
    if (receipt.ids[i] < model.vocab_size) continue;
    return invalid("ids[" + std::to_string(i) + "]",
                   "expected token ids from 0 to " + std::to_string(model.vocab_size - 1) +
                       ", found " + std::to_string(receipt.ids[i]));
  }
  return {};
}

}  // namespace

Receipt begin_receipt(const Request& request, const EncodedPrompt& prompt, int32_t max_tokens,
                      const ModelInfo& model) {
  Receipt receipt;
  receipt.version = version();
  receipt.model = model.name;
  receipt.model_digest = model.digest;
  // A prompt whose log-probabilities are wanted runs all layers for all of its rows.
  receipt.numeric_mode = request.prompt_logprobs ? kReferenceMode : model.numeric_mode;
  Request& decides = receipt.request;
  TokenPrompt ids{prompt.ids, prompt.reply};
  if (Structures::holds_calls(request, prompt)) {
    for (const chat::Tool& tool : prompt.tools) ids.tools.push_back(told_tool(tool));
    ids.must_call = prompt.must_call;
  }
  decides.prompt = std::move(ids);
  decides.sampling = with_defaults(request.sampling, model.defaults);
  decides.max_tokens = max_tokens;
  decides.min_tokens = request.min_tokens;
  decides.stop = request.stop;
  decides.stop_everywhere = request.stop_everywhere;
  decides.include_stop_str_in_output = request.include_stop_str_in_output;
  decides.stop_token_ids = request.stop_token_ids;
  decides.ignore_eos = request.ignore_eos;
  decides.thinking_token_budget = request.thinking_token_budget;
  decides.repetition_detection = request.repetition_detection;
  decides.structure = request.structure;
  decides.structure.is_shown = false;  // the ids of the prompt have it
  return receipt;
}

Result<BoundedReplay> replay_mode(const Receipt& receipt) {
  if (receipt.numeric_mode == kReferenceMode) return BoundedReplay::kExact;
  if (receipt.numeric_mode == kCompactMode) return BoundedReplay::kCompact;
  return invalid("numeric_mode", std::string("expected ") + kReferenceMode + " or " + kCompactMode +
                                     ", which this Stoker computes, found " +
                                     shown_name(receipt.numeric_mode) + " of Stoker " +
                                     shown_name(receipt.version));
}

Result<Request> replay_request(const Receipt& receipt, const ModelInfo& model) {
  if (receipt.model_digest != model.digest) {
    return invalid("model_digest", "expected " + model.digest + ", which is " + model.name +
                                       ", found " + receipt.model_digest +
                                       ": the receipt is of another model, " +
                                       shown_name(receipt.model));
  }
  if (receipt.numeric_mode != model.numeric_mode) {
    return invalid("numeric_mode", "expected " + model.numeric_mode +
                                       ", in which the model is open, found " +
                                       shown_name(receipt.numeric_mode));
  }
  if (auto checked = check_answer_ids(receipt, model); !checked) return std::move(checked).error();
  Request request = receipt.request;
  request.max_tokens = static_cast<int32_t>(receipt.ids.size());
  return request;
}

std::optional<Difference> first_difference(const Receipt& receipt, const Choice& answer) {
  const auto [expected, found] =
      std::mismatch(receipt.ids.begin(), receipt.ids.end(), answer.ids.begin(), answer.ids.end());
  Difference difference;
  difference.position = static_cast<size_t>(expected - receipt.ids.begin());
  if (expected != receipt.ids.end()) difference.expected = *expected;
  if (found != answer.ids.end()) difference.found = *found;
  const Finish& finish = answer.finish;
  if (!difference.expected && !difference.found && finish.reason == receipt.reason &&
      finish.stop == receipt.stop && finish.stop_token == receipt.stop_token)
    return std::nullopt;
  return difference;
}

}  // namespace stoker
