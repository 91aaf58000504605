#include "server/logprobs_json.h"

#include <array>
#include <charconv>
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

std::string token_text(const Engine& engine, int32_t id) {
  return repair_utf8(engine.token_bytes(id));
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
    if (waiting_.front().detail.part != TokenPart::kHidden)
      shown_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

std::string LogprobsJson::take(bool is_whole) {
  if (shown_.empty() && !is_whole) return "null";
  const std::vector<Token> tokens = std::exchange(shown_, {});
  return route_ == Route::kChat ? chat_json(tokens) : completions_json(tokens);
}

double LogprobsJson::mean() const {
  if (num_tokens_ == 0) return std::numeric_limits<double>::lowest();
  return sum_ / static_cast<double>(num_tokens_);
}

// The members of an entry that a token and one that might have come have both.
std::string LogprobsJson::chat_entry(const TokenLogprob& token) const {
  const std::string bytes = engine_.token_bytes(token.id);
  return "\"token\":" + json_quote(repair_utf8(bytes)) + ",\"logprob\":" + number(token.logprob) +
         ",\"bytes\":" +
         list(bytes, [](char byte) { return std::to_string(static_cast<uint8_t>(byte)); });
}

std::string LogprobsJson::chat_json(const std::vector<Token>& tokens) const {
  std::string content;
  std::string reasoning;
  for (const Token& token : tokens) {
    std::string& out = token.detail.part == TokenPart::kReasoning ? reasoning : content;
    if (!out.empty()) out += ",";
    out += "{" + chat_entry({token.id, token.detail.logprobs.logprob}) + ",\"top_logprobs\":" +
           list(token.detail.logprobs.top,
                [this](const TokenLogprob& top) { return "{" + chat_entry(top) + "}"; }) +
           "}";
  }
  return "{\"content\":[" + content + "]," +
         (reasoning.empty() ? "" : "\"reasoning_content\":[" + reasoning + "],") +
         "\"refusal\":null}";
}

std::string LogprobsJson::completions_json(const std::vector<Token>& tokens) const {
  const auto texts = [this](const Token& token) {
    return json_quote(token_text(engine_, token.id));
  };
  // Of tokens that read alike, the likelier one stays.
  const auto top = [this](const Token& token) {
    std::string out;
    std::set<std::string> seen;
    for (const TokenLogprob& each : token.detail.logprobs.top) {
      const std::string text = token_text(engine_, each.id);
      if (!seen.insert(text).second) continue;
      out += (out.empty() ? "" : ",") + json_quote(text) + ":" + number(each.logprob);
    }
    return "{" + out + "}";
  };
  const bool has_top = !tokens.empty() && !tokens.front().detail.logprobs.top.empty();
  return "{\"tokens\":" + list(tokens, texts) + ",\"token_logprobs\":" +
         list(tokens, [](const Token& token) { return number(token.detail.logprobs.logprob); }) +
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
             ",\"decoded_token\":" + json_quote(token_text(engine, token.id)) + "}";
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
