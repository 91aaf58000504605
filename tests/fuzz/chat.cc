// Any conversation, with tools, calls, images and a response format: rendering and encoding must
// not fail on what they accept, the ids must decode to the rendered text, and no control token may
// come from a message.
#include "chat/chat.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "chat/render.h"

namespace stoker::chat {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

Tokenizer small_tokenizer() {
  const auto json =
      read_file(STOKER_SOURCE_DIR "/tests/data/small/checkpoint/tokenizer.json", kMaxFileBytes);
  CHECK(json.has_value(), "the small tokenizer is there");
  auto tokenizer = Tokenizer::parse(*json);
  CHECK(tokenizer.has_value(), "and is read");
  return *std::move(tokenizer);
}

// Reads values off the front of the input; zeros and empty texts after its end.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }

  uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return value;
  }

  // Pieces, each a control token's spelling or bytes; a length byte says which.
  std::string text() {
    std::string out;
    for (int pieces = byte() % 4; pieces > 0; --pieces) {
      const size_t length = byte();
      if (length >= 256 - kControlSpellings.size()) {
        out += kControlSpellings[255 - length];
        continue;
      }
      out += bytes_.substr(0, length);
      bytes_.remove_prefix(std::min(length, bytes_.size()));
    }
    return out;
  }

 private:
  std::string_view bytes_;
};

constexpr std::array<std::string_view, 7> kRoles = {
    "system", "user", "assistant", "latest_reminder", "tool", "developer", "user"};

// Texts for what is JSON most of the time.
std::string json_text(Input& in) {
  constexpr std::array<std::string_view, 6> kTexts = {
      "{}",
      R"({"a":1e-7,"b":[-0,1.50,{"c":null}],"":"\u0001"})",
      R"("{\"a\":true}")",
      R"({"type":"object","properties":{"x":{"type":"object"}},"required":[]})",
      "[1",
      ""};
  const uint8_t which = in.byte();
  return which < 0xC0 ? std::string(kTexts[which % kTexts.size()]) : in.text();
}

Json json_value(Input& in) {
  auto json = Json::parse(json_text(in));
  return json.has_value() ? *std::move(json) : Json();
}

std::string tool_name(Input& in) {
  const uint8_t which = in.byte();
  return which < 0xE0 ? std::string(1, static_cast<char>('a' + which % 4)) : in.text();
}

void add_tools(Conversation& conversation, Input& in) {
  for (int tools = in.byte() % 4; tools > 0; --tools) {
    Tool tool{tool_name(in)};
    const uint8_t kind = in.byte();
    if ((kind & 1U) != 0) tool.description = in.text();
    if ((kind & 2U) != 0) tool.parameters = json_value(in);
    tool.strict = (kind & 4U) != 0;
    conversation.tools.push_back(std::move(tool));
  }
  conversation.tool_choice.kind = static_cast<ToolChoice::Kind>(in.byte() % 4);
  conversation.tool_choice.name = tool_name(in);
  conversation.response_format.kind = static_cast<ResponseFormat::Kind>(in.byte() % 3);
  conversation.response_format.schema = json_value(in);
}

// What a message has beside text and reasoning.
void add_calls(Message& message, Input& in) {
  for (int calls = in.byte() % 4; calls > 0; --calls) {
    message.tool_calls.push_back({in.text(), in.text(), json_text(in)});
  }
  message.tool_call_id = in.text();
}

Conversation conversation_of(Input& in) {
  Conversation conversation;
  const uint8_t mode = in.byte();
  if ((mode & 1U) != 0) conversation.thinking = (mode & 2U) != 0 ? "disabled" : "adaptive";
  if ((mode & 4U) != 0) conversation.reasoning_effort = (mode & 8U) != 0 ? "none" : "100";
  if ((mode & 16U) != 0) conversation.reasoning_effort = in.text();
  conversation.keep_reasoning = (mode & 32U) != 0;
  conversation.continue_last = (mode & 128U) != 0;
  if ((mode & 64U) != 0) add_tools(conversation, in);
  while (!in.empty()) {
    Message message;
    const uint8_t role = in.byte();
    message.role = role < 0xF8 ? std::string(kRoles[role % kRoles.size()]) : in.text();
    const uint8_t shape = in.byte();
    for (int blocks = shape % 4; blocks > 0; --blocks) message.content.emplace_back(in.text());
    if ((shape & 4U) != 0) message.content.emplace_back(Image{in.byte()});
    message.prefix = (shape & 8U) != 0;
    if ((shape & 16U) != 0) add_calls(message, in);
    if (role % 2 == 0) message.reasoning_content = in.text();
    conversation.messages.push_back(std::move(message));
  }
  return conversation;
}

bool is_added(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.added_token(tokenizer.symbol(id)) == id;
}

void check_prompt(const Tokenizer& tokenizer, const Rendered& rendered, const Prompt& prompt) {
  CHECK(tokenizer.decode(prompt.ids, false) == repair_utf8(rendered.text),
        "ids decode to the text");
  // The small tokenizer has no grounding tokens: marks of these are text.
  const auto num_control = std::count_if(
      rendered.marks.begin(), rendered.marks.end(),
      [](const ControlMark& mark) { return static_cast<size_t>(mark.control) < kFirstGrounding; });
  const auto num_added =
      std::count_if(prompt.ids.begin(), prompt.ids.end(),
                    [&tokenizer](int32_t id) { return is_added(tokenizer, id); });
  CHECK(num_added == num_control, "control tokens are the template's");
  CHECK(prompt.images.size() == static_cast<size_t>(std::count(
                                    prompt.ids.begin(), prompt.ids.end(),
                                    tokenizer.added_token(spelling(Control::kImage)).value_or(-1))),
        "each image has its mark");
}

}  // namespace
}  // namespace stoker::chat

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker::chat;  // NOLINT(google-build-using-namespace): the entry point alone
  static const stoker::Tokenizer tokenizer = small_tokenizer();
  static const auto encoder = Encoder::create(tokenizer);
  CHECK(encoder.has_value(), "the small tokenizer has the template's control tokens");
  Input in({reinterpret_cast<const char*>(data), size});
  const Conversation conversation = conversation_of(in);
  const auto rendered = render(conversation);
  const auto prompt = encoder->encode(conversation);
  CHECK(rendered.has_value() == prompt.has_value(), "what renders encodes");
  if (!prompt.has_value()) {
    CHECK(!prompt.error().field.empty(), "errors name a field");
    return 0;
  }
  check_prompt(tokenizer, *rendered, *prompt);
  return 0;
}
