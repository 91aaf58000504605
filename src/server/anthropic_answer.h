// Answers in the shape of Anthropic's interface: a message of blocks, whole or as named server-sent
// events.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/identity.h"
#include "server/request_parser.h"

namespace stoker {

/// The answer to a body of /v1/messages.
class AnthropicAnswer final : public Answer {
 public:
  /// One stream of one choice. `request_id` is the part of the message's id behind "msg_".
  AnthropicAnswer(const AnswerForm& form, const std::string& request_id,
                  std::vector<std::unique_ptr<Stream>> streams);

  /// message_start.
  std::string opening() override;
  const char* ping() const override { return "event: ping\ndata: {\"type\":\"ping\"}\n\n"; }
  std::string body() override;

 private:
  enum class Block { kNone, kThinking, kText, kCall };

  void tell(Choice& choice, Event& event, std::string& out) override;
  void tell_failure(const HttpError& error, std::string& out) const override;
  void append_reasoning(const std::string& text, std::string& out);
  void append_text(const std::string& text, std::string& out);
  void append_call(const CallPiece& piece, std::string& out);
  void append_end(const Finish& finish, std::string& out);
  void open(Block block, const std::string& json, std::string& out);
  void close(std::string& out);
  void append_delta(const char* type, const char* member, const std::string& value,
                    std::string& out) const;
  std::string message_json(const std::string& content, const std::string& end) const;
  std::string usage_json() const;

  const std::string id_;
  const std::string model_;
  const bool shows_reasoning_;
  IdSource ids_;
  Block open_ = Block::kNone;  // of a stream: the block that is being told
  int num_blocks_ = 0;         // of a stream: begun
};

}  // namespace stoker
