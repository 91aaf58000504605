// Answers in OpenAI's shapes: completions and chats, whole or as server-sent events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/http_error.h"
#include "server/identity.h"
#include "server/request_parser.h"
#include "stoker/engine.h"

namespace stoker {

/// The answer to a completion or a chat.
class OpenAiAnswer final : public Answer {
 public:
  /// At least one stream; none null. `request_id` is the part of the answer's id behind its kind.
  /// Borrows the engine, for the texts of tokens.
  OpenAiAnswer(const AnswerForm& form, const std::string& request_id,
               std::vector<std::unique_ptr<Stream>> streams, const Engine& engine);
  ~OpenAiAnswer() override;

  /// Who speaks, for chat; the prompt, for echo.
  std::string opening() override;
  const char* ping() const override { return ": ping\n\n"; }
  std::string body() override;

 private:
  struct ToldPrompt;
  struct ToldChoice;

  void tell(Choice& choice, Event& event, std::string& out) override;
  void tell_failure(const HttpError& error, std::string& out) const override;
  void write(Choice& choice, const Event& event, std::string& out);
  void append_delta(Choice& choice, const char* member, const std::string& text, std::string& out);
  void append_calls(Choice& choice, const std::vector<CallPiece>& pieces, std::string& out);
  std::string calls_json(const Choice& choice) const;
  std::string end_members(const Finish& finish) const;
  void append_end(Choice& choice, const std::string& text, std::string& out);
  void append_chunk(const Choice& choice, const std::string& content, const std::string& end,
                    std::string& out, const std::string& more = "");
  void append_progress(const Choice& choice, const PromptProgress& progress, std::string& out);
  void append_usage_chunk(std::string& out) const;
  std::string metrics_member() const;
  std::string choice_json(const Choice& choice, size_t index);
  std::string prompt_logprobs_member(size_t prompt) const;
  std::string prompt_ids_member(size_t prompt) const;
  std::vector<const Choice*> told_choices() const;
  const std::vector<int32_t>& prompt_ids(size_t prompt) const;

  const AnswerForm form_;
  const Engine& engine_;
  std::string prefix_;                    // of every object: {"id":...,"system_fingerprint":...
  std::vector<ToldPrompt> told_prompts_;  // for each stream
  std::vector<ToldChoice> told_;          // for each choice
  bool keeps_logprobs_ = false;           // they are told, or say which choices are
  IdSource call_ids_;
};

/// "stoker-" and the version.
std::string system_fingerprint();

}  // namespace stoker
