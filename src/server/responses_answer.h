// Answers in the shape of OpenAI's Responses interface: a response of items, whole or as named
// server-sent events that tell it piece by piece and in the end all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/identity.h"
#include "server/logprobs_json.h"
#include "server/request_parser.h"

namespace stoker {

/// The answer to a body of /v1/responses.
class ResponsesAnswer final : public Answer {
 public:
  /// One stream of one choice. `request_id` is the part of the response's id behind "resp_".
  /// Borrows the engine, for the texts of tokens.
  ResponsesAnswer(const AnswerForm& form, const std::string& request_id,
                  std::vector<std::unique_ptr<Stream>> streams, const Engine& engine);

  /// response.created and response.in_progress.
  std::string opening() override;
  const char* ping() const override { return ": ping\n\n"; }
  std::string body() override;

 private:
  enum class Kind { kReasoning, kMessage, kCall };
  enum class Status { kInProgress, kCompleted, kIncomplete, kFailed };

  /// One of `output`, as far as it was told.
  struct Item {
    Kind kind;
    std::string id;
    Status status = Status::kInProgress;
    std::string text = {};      ///< of a call: its arguments
    std::string logprobs = {};  ///< of a message: entries, separated by commas
    std::string name = {};      ///< of a call
    std::string call_id = {};   ///< the same
  };

  void tell(Choice& choice, Event& event, std::string& out) override;
  void tell_failure(const HttpError& error, std::string& out) const override;
  void add_text(Kind kind, const std::string& text, std::string& out);
  void add_call(const CallPiece& piece, std::string& out);
  void append_delta(const std::string& text, std::string& out);
  void end_items(const Finish& finish, std::string& out);
  void open(Item item, std::string& out);
  void close(Status status, std::string& out);
  bool is_open(Kind kind) const;
  void append_event(const char* name, const std::string& members, std::string& out);

  static const char* word_of_status(Status status);
  static const char* events_of(Kind kind);
  static std::string part_json(const Item& item);
  static std::string item_json(const Item& item);
  std::string index_member() const;
  std::string place_members() const;
  std::string output_json() const;
  std::string usage_json() const;
  std::string response_json(Status status, const std::string& error,
                            const char* why_cut = "") const;
  std::string ended_response_json(const Finish& finish) const;

  const AnswerForm form_;
  const std::string id_;
  const int64_t created_;
  LogprobsJson logprobs_;
  IdSource ids_;
  std::vector<Item> items_;  // all but the last are told
  int64_t num_events_ = 0;   // of a stream: before the next one
};

}  // namespace stoker
