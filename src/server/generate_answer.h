// Answers of the route that takes and gives token ids, in vLLM's shape: the ids of each choice,
// whole or as server-sent events, and no text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/logprobs_json.h"
#include "server/request_parser.h"

namespace stoker {

/// The answer to a body of /inference/v1/generate.
class GenerateAnswer final : public Answer {
 public:
  /// One stream, of some choices. Borrows the engine, for the bytes of tokens.
  GenerateAnswer(const AnswerForm& form, const std::string& request_id,
                 std::vector<std::unique_ptr<Stream>> streams, const Engine& engine);

  /// Nothing.
  std::string opening() override { return {}; }
  const char* ping() const override { return ": ping\n\n"; }
  std::string body() override;

 private:
  /// What is told of a choice: all so far, or since the last event of a stream.
  struct ToldIds {
    std::vector<int32_t> ids;
    std::string logprobs;  ///< entries, separated by commas
  };

  void tell(Choice& choice, Event& event, std::string& out) override;
  void tell_failure(const HttpError& error, std::string& out) const override;
  std::string choice_json(const Choice& choice);

  const AnswerForm form_;
  const std::string request_id_;
  const Engine& engine_;
  const LogprobsJson logprobs_;
  std::vector<ToldIds> told_;  // for each choice
  std::vector<PositionLogprobs> prompt_logprobs_;
};

}  // namespace stoker
