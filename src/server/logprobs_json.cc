#include "server/logprobs_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"

namespace stoker {
namespace {

// The shortest text that reads as the same float32.
std::string number(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string text_of_token(const Engine& engine, int32_t id) {
  return repair_utf8(engine.token_bytes(id));
}

// Characters that begin in it.
int64_t num_code_points(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

// Items separated by commas, in brackets.
template <class Items, class Write>
std::string list(const Items& items, const Write& write) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() > 1) out += ",";
    out += write(item);
  }
  return out + "]";
}

}  // namespace

void LogprobsJson::add(const Event& event) {
  for (size_t i = 0; i < event.details.size(); ++i) {
    waiting_.push_back({event.ids[i], event.details[i]});
    sum_ += event.details[i].logprobs.logprob;
    ++num_tokens_;
  }
  for (; num_shown_ < event.num_shown && !waiting_.empty(); ++num_shown_) {
    if (tells_all_ || waiting_.front().detail.part != TokenPart::kHidden)
      shown_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void LogprobsJson::add_prompt(const std::vector<int32_t>& ids,
                              const std::vector<PositionLogprobs>& logprobs, size_t num_top) {
  std::vector<Token> tokens;
  int64_t num_characters = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    Token token{ids[i], {}, i > 0};
    if (i > 0) token.detail.logprobs = logprobs[i - 1];
    auto& top = token.detail.logprobs.top;
    if (top.size() > num_top) top.resize(num_top);
    token.detail.text_offset = num_characters;
    num_characters += num_code_points(engine_.token_bytes(ids[i]));
    tokens.push_back(std::move(token));
  }
  for (Token& token : shown_) token.detail.text_offset += num_characters;
  tokens.insert(tokens.end(), std::make_move_iterator(shown_.begin()),
                std::make_move_iterator(shown_.end()));
  shown_ = std::move(tokens);
}

std::string LogprobsJson::take(bool is_whole) {
  if (shown_.empty() && !is_whole) return "null";
  const std::vector<Token> tokens = std::exchange(shown_, {});
  return route_ == Route::kChat ? chat_json(tokens) : completions_json(tokens);
}

std::string LogprobsJson::take_content() {
  std::string out;
  for (const Token& token : std::exchange(shown_, {})) {
    if (token.detail.part == TokenPart::kContent)
      append_entry(token.id, token.detail.logprobs, out);
  }
  return out;
}

std::string LogprobsJson::entries_of(const Event& event) const {
  std::string out;
  for (size_t i = 0; i < event.details.size(); ++i)
    append_entry(event.ids[i], event.details[i].logprobs, out);
  return out;
}

double LogprobsJson::mean() const {
  if (num_tokens_ == 0) return std::numeric_limits<double>::lowest();
  return sum_ / static_cast<double>(num_tokens_);
}

std::string LogprobsJson::token_text(int32_t id) const {
  return as_ids_ ? "token_id:" + std::to_string(id) : text_of_token(engine_, id);
}

// The members of an entry that a token and one that might have come have both.
std::string LogprobsJson::chat_entry(const TokenLogprob& token) const {
  const std::string bytes = engine_.token_bytes(token.id);
  return "\"token\":" + json_quote(token_text(token.id)) + ",\"logprob\":" + number(token.logprob) +
         ",\"bytes\":" +
         list(bytes, [](char byte) { return std::to_string(static_cast<uint8_t>(byte)); });
}

void LogprobsJson::append_entry(int32_t id, const PositionLogprobs& logprobs,
                                std::string& out) const {
  if (!out.empty()) out += ",";
  out +=
      "{" + chat_entry({id, logprobs.logprob}) + ",\"top_logprobs\":" +
      list(logprobs.top, [this](const TokenLogprob& top) { return "{" + chat_entry(top) + "}"; }) +
      "}";
}

std::string LogprobsJson::chat_json(const std::vector<Token>& tokens) const {
  std::string content;
  std::string reasoning;
  for (const Token& token : tokens) {
    append_entry(token.id, token.detail.logprobs,
                 !tells_all_ && token.detail.part == TokenPart::kReasoning ? reasoning : content);
  }
  return "{\"content\":[" + content + "]," +
         (reasoning.empty() ? "" : "\"reasoning_content\":[" + reasoning + "],") +
         "\"refusal\":null}";
}

std::string LogprobsJson::completions_json(const std::vector<Token>& tokens) const {
  const auto texts = [this](const Token& token) { return json_quote(token_text(token.id)); };
  // Of tokens that read alike, the likelier one stays.
  const auto top = [this](const Token& token) {
    if (!token.has_logprob) return std::string("null");
    std::string out;
    std::set<std::string> seen;
    for (const TokenLogprob& each : token.detail.logprobs.top) {
      const std::string text = token_text(each.id);
      if (!seen.insert(text).second) continue;
      out += (out.empty() ? "" : ",") + json_quote(text) + ":" + number(each.logprob);
    }
    return "{" + out + "}";
  };
  const auto logprob = [](const Token& token) {
    return token.has_logprob ? number(token.detail.logprobs.logprob) : "null";
  };
  const bool has_top = !tokens.empty() && !tokens.back().detail.logprobs.top.empty();
  return "{\"tokens\":" + list(tokens, texts) + ",\"token_logprobs\":" + list(tokens, logprob) +
         ",\"top_logprobs\":" + (has_top ? list(tokens, top) : "null") + ",\"text_offset\":" +
         list(tokens, [](const Token& token) { return std::to_string(token.detail.text_offset); }) +
         "}";
}

std::string prompt_logprobs_json(const Engine& engine, const std::vector<int32_t>& prompt,
                                 const std::vector<PositionLogprobs>& logprobs) {
  std::string out = "[null";
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const auto entry = [&engine](const TokenLogprob& token, int32_t rank) {
      return "\"" + std::to_string(token.id) + "\":{\"logprob\":" + number(token.logprob) +
             ",\"rank\":" + std::to_string(rank) +
             ",\"decoded_token\":" + json_quote(text_of_token(engine, token.id)) + "}";
    };
    const int32_t id = prompt[i + 1];
    out += ",{" + entry({id, logprobs[i].logprob}, logprobs[i].rank);
    int32_t rank = 0;
    for (const TokenLogprob& top : logprobs[i].top) {
      ++rank;
      if (top.id != id) out += "," + entry(top, rank);
    }
    out += "}";
  }
  return out + "]";
}

}  // namespace stoker
