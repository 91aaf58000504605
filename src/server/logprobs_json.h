// Log-probabilities in OpenAI's shapes, and of prompts in vLLM's. Tokens are told with the text
// that they are part of.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "server/request_parser.h"
#include "stoker/engine.h"

namespace stoker {

/// The tokens of one choice. One owner.
class LogprobsJson {
 public:
  /// Borrows the engine. as_ids: tokens are told as "token_id:7". tells_all: of a chat, every token
  /// is an entry of "content".
  LogprobsJson(const Engine& engine, Route route, bool as_ids, bool tells_all = false)
      : engine_(engine), route_(route), as_ids_(as_ids), tells_all_(tells_all) {}

  /// Puts a prompt in front of all tokens, as `echo` has it. The first has no log-probability.
  /// num_top: how many of the likeliest are told of each.
  void add_prompt(const std::vector<int32_t>& ids, const std::vector<PositionLogprobs>& logprobs,
                  size_t num_top);

  /// Takes the tokens of an event, with their details.
  void add(const Event& event);

  /// What is known of tokens whose text is out and that were not told yet; of none "null", or the
  /// same with empty lists for a whole answer. Chat: {"content": [...], "refusal": null}, with
  /// "reasoning_content" where there is some. Completions: {"tokens": [...], ...}.
  std::string take(bool is_whole);

  /// The same, as entries of a chat's "content", separated by commas; of none empty. What is known
  /// of the reasoning is dropped.
  std::string take_content();

  /// The tokens of an event as such entries, whether their text is out or not, and hidden ones too.
  std::string entries_of(const Event& event) const;

  /// The mean log-probability of all tokens so far, those without text included; the least number
  /// of none.
  double mean() const;

 private:
  struct Token {
    int32_t id = 0;
    TokenDetail detail;
    bool has_logprob = true;
  };

  std::string chat_json(const std::vector<Token>& tokens) const;
  void append_entry(int32_t id, const PositionLogprobs& logprobs, std::string& out) const;
  std::string completions_json(const std::vector<Token>& tokens) const;
  std::string chat_entry(const TokenLogprob& token) const;

  std::string token_text(int32_t id) const;

  const Engine& engine_;
  const Route route_;
  const bool as_ids_;
  const bool tells_all_;
  std::deque<Token> waiting_;  // for their text
  std::vector<Token> shown_;   // since take()
  int32_t num_shown_ = 0;
  double sum_ = 0;
  int64_t num_tokens_ = 0;
};

/// Of a prompt: null for its first token, then for each {"id": {"logprob", "rank",
/// "decoded_token"}} of the token that is there and of the likeliest ones.
std::string prompt_logprobs_json(const Engine& engine, const std::vector<int32_t>& prompt,
                                 const std::vector<PositionLogprobs>& logprobs);

}  // namespace stoker
