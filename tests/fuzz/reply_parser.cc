// Any reply in any pieces: the deltas are those of the whole text, the account covers its bytes,
// and the arguments of a complete call are JSON.
#include "chat/reply_parser.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

namespace stoker::chat {
namespace {

// What bytes of the input stand for that would seldom be found by chance.
constexpr std::array<std::string_view, 16> kMarkup = {"<｜DSML｜ calls>\n",
                                                      "</｜DSML｜ calls>",
                                                      "<｜DSML｜ invoke name=\"",
                                                      "</｜DSML｜ invoke>\n",
                                                      "<｜DSML｜ parameter name=\"",
                                                      "</｜DSML｜ parameter>\n",
                                                      "\" string=\"true\">",
                                                      "\" string=\"false\">",
                                                      "<think>",
                                                      "</think>",
                                                      "\n\n<|DSML| invoke name=\"",
                                                      "</|DSML|",
                                                      "</｜DSML｜function_calls>",
                                                      "\">\n",
                                                      "</｜DS",
                                                      "[1,{\"a\":2}]"};

struct Reply {
  ReplyOptions options;
  ReplyEnd end{};
  std::vector<std::string> pieces;
  std::string text;
};

// The first byte chooses the options; 0xF0 and more choose markup, 0xE0 cuts.
Reply reply_of(std::string_view bytes) {
  Reply reply;
  const uint8_t first = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  reply.options.start = static_cast<ReplyStart>(first % 5);
  reply.options.has_calls = (first & 8U) == 0;
  reply.options.one_call = (first & 16U) != 0;
  if ((first & 32U) != 0) reply.options.only_tool = "f";
  reply.end = (first & 64U) != 0 ? ReplyEnd::kLength : ReplyEnd::kEndOfText;
  reply.pieces.emplace_back();
  for (const char c : bytes.substr(bytes.empty() ? 0 : 1)) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0xE0) {
      reply.pieces.emplace_back();
    } else if (byte >= 0xF0) {
      reply.pieces.back() += kMarkup[byte & 15U];
    } else {
      reply.pieces.back() += c;
    }
  }
  for (std::string& piece : reply.pieces) {
    piece = repair_utf8(piece);
    reply.text += piece;
  }
  return reply;
}

struct Outcome {
  ReplyOutput out;
  ReplyEnding ending;
};

Outcome parse(const Reply& reply, const std::vector<std::string>& pieces) {
  ReplyParser parser(reply.options);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    parser.push(piece, outcome.out);
    CHECK(parser.num_settled() == (outcome.out.parts.empty() ? 0 : outcome.out.parts.back().end),
          "what is settled is accounted for");
  }
  outcome.ending = parser.finish(reply.end, outcome.out);
  return outcome;
}

void check_same(const Outcome& a, const Outcome& b) {
  CHECK(a.out.deltas.size() == b.out.deltas.size(), "as many deltas");
  for (size_t i = 0; i < a.out.deltas.size(); ++i) {
    const Delta& x = a.out.deltas[i];
    const Delta& y = b.out.deltas[i];
    CHECK(x.kind == y.kind && x.call == y.call && x.text == y.text, "the same deltas");
  }
  CHECK(a.out.parts.size() == b.out.parts.size(), "as many parts");
  for (size_t i = 0; i < a.out.parts.size(); ++i) {
    const PartRange& x = a.out.parts[i];
    const PartRange& y = b.out.parts[i];
    CHECK(x.end == y.end && x.part == y.part && x.is_text == y.is_text, "the same parts");
  }
  CHECK(a.ending.num_calls == b.ending.num_calls &&
            a.ending.is_truncated == b.ending.is_truncated &&
            a.ending.unfinished == b.ending.unfinished,
        "the same ending");
}

void check_account(const Reply& reply, const Outcome& outcome) {
  std::string shown;
  size_t begin = 0;
  for (const PartRange& range : outcome.out.parts) {
    CHECK(range.end > begin, "ranges grow");
    if (range.is_text) shown += reply.text.substr(begin, range.end - begin);
    begin = range.end;
  }
  CHECK(begin == reply.text.size(), "every byte is accounted for");
  std::string text;
  for (const Delta& delta : outcome.out.deltas) {
    const bool is_text = delta.kind == DeltaKind::kReasoning || delta.kind == DeltaKind::kContent;
    if (is_text) text += delta.text;
  }
  CHECK(text == shown, "the text of the deltas is that of the ranges");
}

void check_calls(const Outcome& outcome) {
  std::string arguments;
  int32_t num_calls = 0;
  for (const Delta& delta : outcome.out.deltas) {
    if (delta.kind == DeltaKind::kCallBegin) {
      CHECK(delta.call == num_calls, "calls are counted");
      arguments.clear();
    }
    if (delta.kind == DeltaKind::kCallArguments) arguments += delta.text;
    if (delta.kind != DeltaKind::kCallEnd) continue;
    ++num_calls;
    const auto json = Json::parse(arguments);
    CHECK(json.has_value() && json->is_object(), "arguments of a complete call are an object");
  }
  CHECK(num_calls == outcome.ending.num_calls, "all ends are counted");
}

}  // namespace
}  // namespace stoker::chat

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker::chat;  // NOLINT(google-build-using-namespace): the entry point alone
  const Reply reply = reply_of({reinterpret_cast<const char*>(data), size});
  const Outcome whole = parse(reply, {reply.text});
  check_same(whole, parse(reply, reply.pieces));
  std::vector<std::string> bytes;
  for (const char c : reply.text) bytes.emplace_back(1, c);
  check_same(whole, parse(reply, bytes));
  check_account(reply, whole);
  check_calls(whole);
  return 0;
}
