// Any bytes as a receipt: what is read is written as what reads the same, and is as far in range as
// the parser promises.
#include "stoker/receipt.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"

namespace stoker {
namespace {

void check_ids(const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) CHECK(id >= 0, "an id");
}

void check_request(const Request& request) {
  const auto* prompt = std::get_if<TokenPrompt>(&request.prompt);
  CHECK(prompt != nullptr && !prompt->ids.empty(), "a prompt");
  check_ids(prompt->ids);
  CHECK(!request.thinking_token_budget || *request.thinking_token_budget >= 0, "a budget");
  for (const Tool& tool : prompt->tools) CHECK(!tool.name.empty(), "a name");
  CHECK(request.n == 1 && request.min_tokens >= 0 && request.max_tokens >= 1, "counts");
  const SamplingParams& sampling = request.sampling;
  CHECK(sampling.temperature && sampling.top_p && sampling.top_k && sampling.min_p &&
            sampling.repetition_penalty && sampling.seed,
        "nothing is left to the checkpoint");
  for (const auto& [id, bias] : sampling.logit_bias) CHECK(id >= 0, "a bias");
  for (const auto* ids :
       {&sampling.allowed_token_ids, &sampling.banned_token_ids, &request.stop_token_ids})
    check_ids(*ids);
}

void check_receipt(const Receipt& receipt) {
  check_request(receipt.request);
  CHECK(!receipt.ids.empty() && receipt.model_digest.size() == 32, "an answer of a model");
  check_ids(receipt.ids);
  CHECK(!receipt.stop || !receipt.stop_token, "one reason");
  const std::string text = receipt_json(receipt);
  CHECK(text.find('\n') == std::string::npos, "one line");
  const auto again = parse_receipt(text);
  CHECK(again.has_value() && receipt_json(*again) == text, "what is written is read again");

  ModelInfo model;
  model.digest = receipt.model_digest;
  model.numeric_mode = receipt.numeric_mode;
  model.vocab_size = 1000;
  const auto request = replay_request(receipt, model);
  CHECK(!request || request->min_tokens <= *request->max_tokens, "a request that can be run");
  Choice same;
  same.ids = receipt.ids;
  same.finish.reason = receipt.reason;
  same.finish.stop = receipt.stop;
  same.finish.stop_token = receipt.stop_token;
  CHECK(!first_difference(receipt, same), "equal to itself");
  same.ids.back() ^= 1;
  CHECK(first_difference(receipt, same)->position + 1 == receipt.ids.size(), "the last id");
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto receipt = stoker::parse_receipt({reinterpret_cast<const char*>(data), size});
  if (receipt) {
    stoker::check_receipt(*receipt);
  } else {
    CHECK(receipt.error().code == stoker::ErrorCode::kInvalidArgument &&
              !receipt.error().message.empty(),
          "told as the caller's");
  }
  return 0;
}
