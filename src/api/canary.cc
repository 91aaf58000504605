#include "api/canary.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/json.h"
#include "base/try.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kCanaryFormat = 1;
constexpr size_t kMaxPrompts = 16;
constexpr int32_t kNumLikeliest = 20;
constexpr milliseconds kStep{1000};
constexpr const char* kSentence =
    "The ship sailed at dawn, and by noon the coast had sunk below the horizon. ";

Error differs(const std::string& what) {
  return {ErrorCode::kInternal, "canary: " + what, "canary"};
}

// What one run of a prompt gave.
struct Answer {
  std::vector<int32_t> tokens;
  snapshot::Digest digest;
};

int64_t bits_of(float value) {
  int32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void add_position(snapshot::Hasher& hasher, int32_t id, const PositionLogprobs& at) {
  hasher.add_number(id).add_number(bits_of(at.logprob)).add_number(at.rank);
  for (const TokenLogprob& likely : at.top)
    hasher.add_number(likely.id).add_number(bits_of(likely.logprob));
}

Request canary_request(const std::vector<int32_t>& ids, bool speculate, const std::string& salt) {
  Request request;
  request.prompt = TokenPrompt{ids};
  request.sampling.temperature = 0;
  request.max_tokens = kCanaryTokens;
  request.ignore_eos = true;
  request.logprobs = kNumLikeliest;
  request.speculate = speculate;
  request.cache_salt = salt;
  return request;
}

// Reads a stream to its end.
Result<Answer> read_answer(Stream& stream, std::chrono::steady_clock::time_point end) {
  Answer answer;
  snapshot::Hasher hasher;
  while (true) {
    const std::optional<Event> event = stream.wait(kStep);
    if (!event && std::chrono::steady_clock::now() >= end) {
      return Error{ErrorCode::kDeadlineExceeded,
                   "canary: expected answers within its time limit, found none", "canary"};
    }
    if (!event) continue;
    for (size_t i = 0; i < event->ids.size(); ++i) {
      answer.tokens.push_back(event->ids[i]);
      add_position(hasher, event->ids[i], event->details[i].logprobs);
    }
    if (!event->finish) continue;
    if (event->finish->error) return *event->finish->error;
    if (event->finish->reason == FinishReason::kCancelled)
      return Error{ErrorCode::kCancelled, "canary: its prompt was cancelled", ""};
    answer.digest = hasher.digest();
    return answer;
  }
}

// That no other run of this process or another has.
std::string fresh_salt() {
  std::random_device device;
  std::string salt = "canary";
  for (int i = 0; i < 4; ++i) salt += " " + std::to_string(device());
  return salt;
}

class CanaryRun {
 public:
  CanaryRun(Engine& engine, milliseconds limit)
      : engine_(engine), end_(std::chrono::steady_clock::now() + limit) {}

  // Each submission reads no prefix that another one cached.
  Result<std::unique_ptr<Stream>> begin(const CanaryPrompt& prompt, bool speculate) {
    const std::string salt = salt_ + " " + std::to_string(num_runs_++);
    return engine_.submit(canary_request(prompt.ids, speculate, salt));
  }

  Result<Answer> read(Stream& stream) const { return read_answer(stream, end_); }

  Result<Answer> alone(const CanaryPrompt& prompt) {
    TRY_ASSIGN(const std::unique_ptr<Stream> stream, begin(prompt, false));
    return read(*stream);
  }

 private:
  Engine& engine_;
  const std::chrono::steady_clock::time_point end_;
  const std::string salt_ = fresh_salt();
  int num_runs_ = 0;
};

Result<void> compare(const CanaryPrompt& expected, const Answer& found, const std::string& run) {
  const std::string where = "prompt '" + expected.name + "', " + run + ": ";
  const auto [e, f] = std::ranges::mismatch(expected.tokens, found.tokens);
  if (e != expected.tokens.end() || f != found.tokens.end()) {
    const auto text = [](auto at, auto end) { return at == end ? "none" : std::to_string(*at); };
    return differs(where + "token " + std::to_string(e - expected.tokens.begin()) + ": expected " +
                   text(e, expected.tokens.end()) + ", found " + text(f, found.tokens.end()));
  }
  if (expected.digest == found.digest) return {};
  return differs(where + "expected log-probabilities with digest " + expected.digest.hex() +
                 ", found " + found.digest.hex());
}

// Ids that any vocabulary has, always the same.
std::vector<int32_t> made_ids(size_t count, int32_t vocab_size, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<int32_t> ids(count);
  const auto least = static_cast<uint32_t>(std::min(vocab_size, 256));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % least);
  return ids;
}

ChatPrompt short_chat() {
  ChatPrompt chat;
  chat.messages = {{"user", {"What is the capital of France?"}}};
  return chat;
}

ChatPrompt tools_chat() {
  ChatPrompt chat;
  Tool tool;
  tool.name = "get_weather";
  tool.description = "The weather of a place, 天気, wie es heute ist";
  tool.parameters = R"({"type":"object","properties":{"place":{"type":"string"}}})";
  chat.tools = {tool};
  chat.messages = {{"user", {"Wie wird das Wetter in Zürich? 東京は？ 🌤"}}};
  return chat;
}

std::string long_text(int32_t window) {
  std::string text;
  while (text.size() < static_cast<size_t>(window) * 8) text += kSentence;
  return text;
}

// What the model can read: a chat, a text, or ids.
Result<std::vector<int32_t>> ids_for(const Engine& engine, const char* name, int32_t window) {
  const ModelInfo& model = engine.model();
  const bool is_long = std::string_view(name) == "long";
  if (!model.has_text) {
    const auto count = static_cast<size_t>(is_long ? window + 40 : 12);
    return made_ids(count, model.vocab_size, is_long ? 2 : 1);
  }
  if (is_long) return engine.encode(TextPrompt{long_text(window)});
  const bool is_short = std::string_view(name) == "short";
  if (model.has_chat) return engine.encode(is_short ? short_chat() : tools_chat());
  return engine.encode(TextPrompt{is_short ? "The capital of France is" : "Zürich, 東京 🌤:"});
}

Json ids_json(const std::vector<int32_t>& ids) {
  std::vector<Json> items;
  items.reserve(ids.size());
  for (const int32_t id : ids) items.push_back(Json::integer(id));
  return Json::array(std::move(items));
}

std::optional<std::vector<int32_t>> ids_of(const Json* json, int32_t vocab_size) {
  if (json == nullptr || !json->is_array() || json->items().empty()) return std::nullopt;
  std::vector<int32_t> ids;
  for (const Json& item : json->items()) {
    const auto id = item.as_int();
    if (!id || *id < 0 || *id >= vocab_size) return std::nullopt;
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

std::optional<CanaryPrompt> prompt_of(const Json& json, int32_t vocab_size) {
  const Json* const name = json.find("name");
  const Json* const digest = json.find("digest");
  auto ids = ids_of(json.find("ids"), vocab_size);
  auto tokens = ids_of(json.find("tokens"), vocab_size);
  if (name == nullptr || digest == nullptr || !ids || !tokens) return std::nullopt;
  const auto value = snapshot::Digest::from_hex(digest->as_string());
  if (!value) return std::nullopt;
  return CanaryPrompt{name->as_string(), *std::move(ids), *std::move(tokens), *value};
}

}  // namespace

Result<Canary> make_canary(Engine& engine, int32_t window, milliseconds limit) {
  CanaryRun run(engine, limit);
  Canary canary;
  const auto room =
      static_cast<size_t>(std::max(engine.model().max_context_tokens - kCanaryTokens, int32_t{1}));
  for (const char* name : {"short", "long", "tools"}) {
    CanaryPrompt prompt;
    prompt.name = name;
    TRY_ASSIGN(prompt.ids, ids_for(engine, name, window));
    if (prompt.ids.size() > room) prompt.ids.resize(room);
    TRY_ASSIGN(Answer answer, run.alone(prompt));
    prompt.tokens = std::move(answer.tokens);
    prompt.digest = answer.digest;
    canary.prompts.push_back(std::move(prompt));
  }
  return canary;
}

Result<void> check_canary(Engine& engine, const Canary& canary, milliseconds limit) {
  CanaryRun run(engine, limit);
  const auto first = run.alone(canary.prompts.front());
  if (!first) return first.error();
  if (auto same = compare(canary.prompts.front(), *first, "alone"); !same) return same;
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < 2 * canary.prompts.size(); ++i) {
    TRY_ASSIGN(auto stream, run.begin(canary.prompts[i / 2], i % 2 == 1));
    streams.push_back(std::move(stream));
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    const auto found = run.read(*streams[i]);
    if (!found) return found.error();
    const char* const name = i % 2 == 1 ? "in a batch, with drafts" : "in a batch, without drafts";
    if (auto same = compare(canary.prompts[i / 2], *found, name); !same) return same;
  }
  return {};
}

std::string canary_text(const Canary& canary) {
  std::vector<Json> prompts;
  for (const CanaryPrompt& prompt : canary.prompts) {
    prompts.push_back(Json::object({{"name", Json::string(prompt.name)},
                                    {"ids", ids_json(prompt.ids)},
                                    {"tokens", ids_json(prompt.tokens)},
                                    {"digest", Json::string(prompt.digest.hex())}}));
  }
  return Json::object({{"format", Json::integer(kCanaryFormat)},
                       {"prompts", Json::array(std::move(prompts))}})
             .dump() +
         "\n";
}

Result<Canary> parse_canary(std::string_view text, int32_t vocab_size) {
  const Error damaged{ErrorCode::kCorruptData, "canary: expected prompts with their answers", ""};
  const auto json = Json::parse(text, {.max_depth = 8, .max_values = kMaxCanaryBytes / 2});
  if (!json) return damaged;
  const Json* const prompts = json->find("prompts");
  if (prompts == nullptr || prompts->items().empty() || prompts->items().size() > kMaxPrompts)
    return damaged;
  Canary canary;
  for (const Json& item : prompts->items()) {
    auto prompt = prompt_of(item, vocab_size);
    if (!prompt) return damaged;
    canary.prompts.push_back(*std::move(prompt));
  }
  if (canary_text(canary) != text) return damaged;
  return canary;
}

}  // namespace stoker
