#include "chat/reply_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/json.h"
#include "support/golden_chat.h"

namespace stoker::chat {
namespace {

using testing::golden_json;
using testing::golden_start;

struct ParsedCall {
  std::string name;
  std::string arguments;
  bool is_complete = false;

  bool operator==(const ParsedCall&) const = default;
};

struct ParsedReply {
  std::string reasoning;
  std::string content;
  std::vector<ParsedCall> calls;
  int32_t num_calls = 0;
  bool is_truncated = false;
  std::string unfinished;
  std::vector<std::tuple<DeltaKind, int32_t, std::string>> deltas;
  std::vector<std::tuple<size_t, ReplyPart, bool>> parts;

  bool operator==(const ParsedReply&) const = default;
};

void PrintTo(const ParsedReply& reply, std::ostream* out) {
  *out << "reasoning " << json_quote(reply.reasoning) << " content " << json_quote(reply.content);
  for (const ParsedCall& call : reply.calls)
    *out << " call " << call.name << ' ' << call.arguments << (call.is_complete ? "" : " (open)");
  for (const auto& [end, part, is_text] : reply.parts)
    *out << ' ' << end << ':' << static_cast<int>(part) << (is_text ? "t" : "");
}

ParsedReply collected(const ReplyOutput& out, ReplyEnding ending) {
  ParsedReply reply;
  for (const Delta& delta : out.deltas) {
    reply.deltas.emplace_back(delta.kind, delta.call, delta.text);
    const auto call = static_cast<size_t>(delta.call);
    switch (delta.kind) {
      case DeltaKind::kReasoning:
        reply.reasoning += delta.text;
        break;
      case DeltaKind::kContent:
        reply.content += delta.text;
        break;
      case DeltaKind::kCallBegin:
        EXPECT_EQ(call, reply.calls.size());
        reply.calls.push_back({delta.text, ""});
        break;
      case DeltaKind::kCallArguments:
        reply.calls.at(call).arguments += delta.text;
        break;
      case DeltaKind::kCallEnd:
        reply.calls.at(call).is_complete = true;
        break;
    }
  }
  for (const PartRange& range : out.parts)
    reply.parts.emplace_back(range.end, range.part, range.is_text);
  reply.num_calls = ending.num_calls;
  reply.is_truncated = ending.is_truncated;
  reply.unfinished = std::move(ending.unfinished);
  return reply;
}

ParsedReply parse_pieces(const std::vector<std::string_view>& pieces, const ReplyOptions& options,
                         ReplyEnd end = ReplyEnd::kEndOfText) {
  ReplyParser parser(options);
  ReplyOutput out;
  for (const std::string_view piece : pieces) parser.push(piece, out);
  ReplyEnding ending = parser.finish(end, out);
  return collected(out, std::move(ending));
}

// The account of bytes covers the text, and its text is that of the deltas.
void check_account(std::string_view text, const ParsedReply& reply) {
  std::string reasoning;
  std::string content;
  size_t begin = 0;
  for (const auto& [range_end, part, is_text] : reply.parts) {
    ASSERT_GT(range_end, begin);
    const std::string_view bytes = text.substr(begin, range_end - begin);
    if (is_text) (part == ReplyPart::kReasoning ? reasoning : content) += bytes;
    begin = range_end;
  }
  EXPECT_EQ(begin, text.size());
  EXPECT_EQ(reasoning, reply.reasoning);
  EXPECT_EQ(content, reply.content);
}

std::vector<std::string_view> single_bytes(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
  return pieces;
}

// What is out and settled after a beginning of the text does not depend on how that was cut.
void check_beginnings(std::string_view text, const ReplyOptions& options) {
  ReplyParser by_bytes(options);
  ReplyOutput bytes_out;
  for (size_t n = 1; n <= text.size(); ++n) {
    by_bytes.push(text.substr(n - 1, 1), bytes_out);
    ReplyParser at_once(options);
    ReplyOutput out;
    at_once.push(text.substr(0, n), out);
    ASSERT_EQ(at_once.num_settled(), by_bytes.num_settled()) << n;
    ASSERT_EQ(at_once.num_settled(), out.parts.empty() ? 0 : out.parts.back().end);
    ASSERT_EQ(collected(out, {}), collected(bytes_out, {})) << n;
  }
}

// Parses the text whole, and checks that every cut of it gives the same.
ParsedReply parse(std::string_view text, const ReplyOptions& options,
                  ReplyEnd end = ReplyEnd::kEndOfText) {
  const ParsedReply whole = parse_pieces({text}, options, end);
  check_account(text, whole);
  EXPECT_EQ(parse_pieces(single_bytes(text), options, end), whole);
  for (size_t at = 1; at < text.size(); ++at) {
    EXPECT_EQ(parse_pieces({text.substr(0, at), text.substr(at)}, options, end), whole) << at;
  }
  check_beginnings(text, options);
  for (const ParsedCall& call : whole.calls) {
    if (!call.is_complete) continue;
    EXPECT_TRUE(Json::parse(call.arguments).has_value()) << call.arguments;
  }
  return whole;
}

constexpr ReplyOptions kThinking = {ReplyStart::kReasoningLead, true};
constexpr ReplyOptions kChat = {ReplyStart::kContentLead, true};

// A tag mark for each D in front of which < or </ stands.
std::string tagged(std::string text) {
  for (size_t at = text.find('D'); at != std::string::npos; at = text.find('D', at + 1)) {
    const bool is_tag =
        at > 0 && (text[at - 1] == '<' || (at > 1 && text.substr(at - 2, 2) == "</"));
    if (is_tag) text.replace(at, 1, "｜DSML｜");
  }
  return text;
}

std::string invoke(const std::string& name, const std::string& parameters) {
  return tagged("<D invoke name=\"" + name + "\">\n" + parameters + "\n</D invoke>\n");
}

std::string block(const std::string& invokes) {
  return tagged("\n\n<D calls>\n") + invokes + tagged("</D calls>");
}

std::string parameter(const std::string& key, const std::string& value, bool is_string = true) {
  return tagged("<D parameter name=\"" + key + "\" string=\"" + (is_string ? "true" : "false") +
                "\">" + value + "</D parameter>");
}

// The arguments of a call with one parameter.
std::string arguments_of(const std::string& value, bool is_string = true) {
  const ParsedReply reply = parse(block(invoke("f", parameter("k", value, is_string))), kChat);
  EXPECT_EQ(reply.calls.size(), 1U);
  return reply.calls.empty() ? "" : reply.calls[0].arguments;
}

struct GoldenReply {
  std::string content;
  std::vector<ParsedCall> calls;
  std::string finish;
};

// Where we choose otherwise than the vendor's library.
const std::map<std::string, GoldenReply>& own_choices() {
  static const std::map<std::string, GoldenReply> choices = {
      {"think open start", {"a", {}, "stop"}},
      {"two blocks", {"", {{"f", "{}", true}, {"g", "{}", true}}, "tool_calls"}},
      {"bad json", {"", {{"f", R"({"a": "not json"})", true}}, "tool_calls"}},
      {"key odd", {"", {{"f", R"({"a b": "1", "": "2", "x": "3"})", true}}, "tool_calls"}},
      {"eos in value", {"", {{"f", R"({"x": "half)", false}}, "stop"}},
      {"eos in json value", {"", {{"f", R"({"x": )", false}}, "stop"}},
      {"eos after param", {"", {{"f", R"({"x": "v"})", true}}, "tool_calls"}},
      {"eos in name", {"", {}, "stop"}},
      {"eos after name", {"", {{"f", "", false}}, "stop"}},
      {"ascii bars", {"c", {{"f", R"({"x": "y"})", true}}, "tool_calls"}},
      // Its only parameter is complete, so the call is closed as in "eos after param".
      {"wrong close in value",
       {"", {{"f", R"({"x": "v</parameter>\n</invoke>\n"})", true}}, "tool_calls"}},
      {"json out fence", {"Sure:\n```json\n{\"a\":1}\n```\nbye", {}, "stop"}},
      {"json out bare", {"Sure {\"a\":[1]} bye", {}, "stop"}},
  };
  return choices;
}

GoldenReply golden_reply(const Json& json) {
  const Json& result = *json.find("result");
  const auto own = own_choices().find(json.find("name")->as_string());
  if (own != own_choices().end()) return own->second;
  GoldenReply reply{result.find("content")->as_string(), {}, result.find("finish")->as_string()};
  for (const Json& call : result.find("calls")->items()) {
    const std::string& arguments = call.find("arguments")->as_string();
    reply.calls.push_back({call.find("name")->as_string(), arguments, arguments.ends_with('}')});
  }
  return reply;
}

// Stop strings are looked for in the content, which they cut.
std::string cut_at_stop(const std::string& content, const Json& stops) {
  size_t end = content.size();
  for (const Json& stop : stops.items()) end = std::min(end, content.find(stop.as_string()));
  return content.substr(0, end);
}

TEST(ReplyParser, GoldenReplies) {
  const Json file = golden_json("golden_parse.json");
  ASSERT_EQ(file.find("cases")->items().size(), 60U);
  size_t num_own = 0;
  for (const Json& json : file.find("cases")->items()) {
    const std::string& name = json.find("name")->as_string();
    SCOPED_TRACE(name);
    num_own += own_choices().count(name);
    const bool is_length = json.find("end")->as_string() == "length";
    const ReplyOptions options{golden_start(json.find("start")->as_string()),
                               json.find("tools")->as_bool()};
    const ParsedReply reply = parse(json.find("text")->as_string(), options,
                                    is_length ? ReplyEnd::kLength : ReplyEnd::kEndOfText);
    const GoldenReply expected = golden_reply(json);
    const std::string reasoning = json.find("result")->find("reasoning")->as_string();
    EXPECT_EQ(reply.reasoning, name == "think open start" ? "t" : reasoning);
    EXPECT_EQ(cut_at_stop(reply.content, *json.find("stop")), expected.content);
    EXPECT_EQ(reply.calls, expected.calls);
    const char* finish = reply.num_calls > 0 && !reply.is_truncated ? "tool_calls" : "stop";
    EXPECT_EQ(is_length ? "length" : finish, expected.finish);
  }
  EXPECT_EQ(num_own, own_choices().size());
}

TEST(ReplyParser, ValuesOfAllKinds) {
  EXPECT_EQ(arguments_of("cmd 2>&1 < in </ \"q\" \\ \n\t </div> 😀 ｜DSML｜ <｜DSML｜ x"),
            "{\"k\": \"cmd 2>&1 < in </ \\\"q\\\" \\\\ \\n\\t </div> 😀 ｜DSML｜ <｜DSML｜ x\"}");
  EXPECT_EQ(arguments_of(""), R"({"k": ""})");
  for (const std::string value :
       {"false", "null", "-0.5e3", R"([[1,[2]],{"a":{"b":[]}}])", " [ 1 ,\n2 ] ", "\"text\""}) {
    EXPECT_EQ(arguments_of(value, false), "{\"k\": " + value + "}");
  }
}

TEST(ReplyParser, WhatIsNoJsonBecomesAString) {
  const std::pair<std::string, std::string> rows[] = {
      {"", R"("")"},
      {"True", R"("True")"},
      {"[1,2", R"("[1,2")"},
      {"{'a':1}", R"("{'a':1}")"},
      {"1 2", R"("1 2")"},
      {"NaN", R"("NaN")"},
      {"\xEF\xBB\xBF"
       "1",
       "\"\xEF\xBB\xBF"
       "1\""},
      {std::string("1\0", 2), R"("1\u0000")"},
      {std::string(200, '[') + std::string(200, ']'),
       "\"" + std::string(200, '[') + std::string(200, ']') + "\""},
  };
  for (const auto& [value, expected] : rows)
    EXPECT_EQ(arguments_of(value, false), "{\"k\": " + expected + "}") << value;
}

TEST(ReplyParser, KeysAndNamesAreAnythingUpToAQuote) {
  const std::string parameters = parameter("a b", "1") + "\n" + parameter("", "2") + "\n" +
                                 parameter(" string=", "3", false) + "\n" +
                                 parameter("back\\slash\n<", "4");
  const ParsedReply reply = parse(block(invoke("na me\\", parameters)), kChat);
  const std::vector<ParsedCall> expected = {
      {"na me\\", R"({"a b": "1", "": "2", " string=": 3, "back\\slash\n<": "4"})", true}};
  EXPECT_EQ(reply.calls, expected);
}

TEST(ReplyParser, TextBlockAndNothingElse) {
  const std::string calls = block(invoke("f", "") + invoke("g", parameter("k", "v")) +
                                  tagged("<D invoke name=\"h\">\n</D invoke>\n"));
  const std::vector<ParsedCall> expected = {
      {"f", "{}", true}, {"g", R"({"k": "v"})", true}, {"h", "{}", true}};
  for (const std::string_view before : {"", "text", "text\n", " "}) {
    const ParsedReply reply = parse(std::string(before) + calls, kChat);
    EXPECT_EQ(reply.content, before == "text\n" ? "text" : before);
    EXPECT_EQ(reply.calls, expected);
    EXPECT_EQ(reply.num_calls, 3);
    EXPECT_FALSE(reply.is_truncated);
    EXPECT_EQ(reply.unfinished, "");
  }
  EXPECT_EQ(parse("I invoke name=\"f\"> and parameter name=\"x\"", kChat).content,
            "I invoke name=\"f\"> and parameter name=\"x\"");
}

TEST(ReplyParser, DeltasOfCallsStandInOrder) {
  const ParsedReply reply =
      parse("r</think>c" + block(invoke("f", parameter("k", "v")) + invoke("g", "")), kThinking);
  using Row = std::tuple<DeltaKind, int32_t, std::string>;
  const std::vector<Row> expected = {
      {DeltaKind::kReasoning, 0, "r"},      {DeltaKind::kContent, 0, "c"},
      {DeltaKind::kCallBegin, 0, "f"},      {DeltaKind::kCallArguments, 0, R"({"k": "v"})"},
      {DeltaKind::kCallEnd, 0, ""},         {DeltaKind::kCallBegin, 1, "g"},
      {DeltaKind::kCallArguments, 1, "{}"}, {DeltaKind::kCallEnd, 1, ""},
  };
  EXPECT_EQ(reply.deltas, expected);
}

TEST(ReplyParser, AccountOfBytes) {
  const std::string calls = block(invoke("f", ""));
  const std::string text = "\n<think>a\n</think>\nb</think>c" + calls + "\nend";
  const ParsedReply reply = parse(text, kThinking);
  using Row = std::tuple<size_t, ReplyPart, bool>;
  const size_t calls_begin = text.size() - calls.size() - 4;
  const std::vector<Row> expected = {
      {1, ReplyPart::kReasoning, false},  // a line feed of the lead; <think> behind it is text
      {9, ReplyPart::kReasoning, true},
      {18, ReplyPart::kReasoning, false},  // the marker and the line feed in front of it
      {19, ReplyPart::kContent, false},
      {20, ReplyPart::kContent, true},
      {28, ReplyPart::kContent, false},  // a stray marker
      {calls_begin, ReplyPart::kContent, true},
      {calls_begin + calls.size(), ReplyPart::kCalls, false},
      {text.size(), ReplyPart::kDropped, false},
  };
  EXPECT_EQ(reply.parts, expected);
}

TEST(ReplyParser, OutputMayBeTakenAfterEachPush) {
  const std::string text = "r\n</think>c\n" + block(invoke("f", parameter("k", "v")));
  ReplyParser parser(kThinking);
  size_t begin = 0;
  std::string shown;
  std::string arguments;
  for (size_t n = 0; n <= text.size(); ++n) {
    ReplyOutput out;
    if (n < text.size()) {
      parser.push(text.substr(n, 1), out);
    } else {
      parser.finish(ReplyEnd::kEndOfText, out);
    }
    for (const PartRange& range : out.parts) {
      ASSERT_GT(range.end, begin);
      if (range.is_text) shown += text.substr(begin, range.end - begin);
      begin = range.end;
    }
    ASSERT_EQ(parser.num_settled(), begin);
    for (const Delta& delta : out.deltas) {
      if (delta.kind == DeltaKind::kCallArguments) arguments += delta.text;
    }
  }
  EXPECT_EQ(begin, text.size());
  EXPECT_EQ(shown, "rc");
  EXPECT_EQ(arguments, R"({"k": "v"})");
}

// What is out after a text while more may come.
struct HeldBack {
  ReplyOptions options;
  std::string text;
  std::string out;
};

TEST(ReplyParser, HoldsBackNoMoreThanCanBecomeAMarker) {
  const ReplyOptions content = {ReplyStart::kContent, true};
  const ReplyOptions no_tools = {ReplyStart::kContent, false};
  const ReplyOptions reasoning = {ReplyStart::kReasoning, true};
  const ReplyOptions no_tools_reasoning = {ReplyStart::kReasoning, false};
  const std::vector<HeldBack> rows = {
      {content, "a\n\n", "a"},
      {content, "a\n\n ", "a\n\n "},
      {content, "a\n\n<", "a"},
      {content, "a\n\n</", "a\n\n"},
      {content, "a\n\n<<", "a\n\n<"},
      {content, "a</thin", "a"},
      {content, "a</thing", "a</thing"},
      {content, "a<｜DSML", "a"},
      {content, "a<<｜DSML", "a<"},
      {content, "a<｜DSML<", "a<｜DSML"},
      {content, "a\n<｜DS\n", "a\n<｜DS"},
      {content, "<think", "<think"},
      // ASCII bars open a block behind an empty line alone.
      {content, "a\n<|", "a\n<|"},
      {content, "a\n\n<|DS", "a"},
      {content, "a\n\n<|DS\n<|", "a\n\n<|DS\n<|"},
      {no_tools, "a\n\n", "a\n\n"},
      {no_tools, "a<｜D", "a<｜D"},
      {no_tools, "a</", "a"},
      {reasoning, "a\n\n</", "a"},
      {reasoning, "a\n\n<｜DSML", "a"},
      {reasoning, "a\n\n<|", "a\n\n<|"},
      {reasoning, "<think", "<think"},
      {no_tools_reasoning, "a\n</think", "a"},
      {no_tools_reasoning, "a\n<｜", "a\n<｜"},
      {kThinking, "<thin", ""},
      {kThinking, "\n\n<thin", "<thin"},
      {kChat, "<|DSM", ""},
      {kChat, "a<|DSM", "a<|DSM"},
  };
  for (const HeldBack& row : rows) {
    ReplyParser parser(row.options);
    ReplyOutput out;
    parser.push(row.text, out);
    std::string shown;
    for (const Delta& delta : out.deltas) shown += delta.text;
    EXPECT_EQ(shown, row.out) << row.text;
    const bool is_reasoning = row.options.start <= ReplyStart::kReasoning;
    const ParsedReply reply = parse(row.text, row.options);
    const size_t lead = row.text.starts_with('\n') ? 2 : 0;
    EXPECT_EQ(is_reasoning ? reply.reasoning : reply.content, row.text.substr(lead));
  }
}

TEST(ReplyParser, OverlapsWithinCallsAreFound) {
  const std::string open = tagged("<D calls>\n<D invoke name=\"f\">\n");
  const ParsedReply value = parse(open + parameter("k", "</</｜DSML｜"), kChat);
  ASSERT_EQ(value.calls.size(), 1U);
  EXPECT_EQ(value.calls[0].arguments.substr(0, 9), R"({"k": "</)");
  // The i with which the name of the end breaks off begins an invoke.
  const ParsedReply broken =
      parse(tagged("<D calls>\n</D functinvoke name=\"f\">\n\n</D invoke>"), kChat);
  EXPECT_EQ(broken.calls, (std::vector<ParsedCall>{{"f", "{}", true}}));
}

TEST(ReplyParser, LeadsAreDroppedAndContinuedTextIsNot) {
  EXPECT_EQ(parse("\n\na\n", kChat).content, "a\n");
  EXPECT_EQ(parse("\n\n</think>\n\na", kChat).content, "a");
  EXPECT_EQ(parse("\n\na", {ReplyStart::kContent, true}).content, "\n\na");
  EXPECT_EQ(parse("\n\na", {ReplyStart::kReasoning, true}).reasoning, "\n\na");
  EXPECT_EQ(parse("\n\n</think>\n\na", {ReplyStart::kReasoning, true}).content, "a");
  EXPECT_EQ(parse("<think>a", {ReplyStart::kReasoning, true}).reasoning, "<think>a");
  EXPECT_EQ(parse("<think>\n<think>a", kThinking).reasoning, "<think>a");
}

TEST(ReplyParser, UnclosedReasoningIsReasoning) {
  for (const ReplyEnd end : {ReplyEnd::kEndOfText, ReplyEnd::kLength}) {
    const ParsedReply reply = parse("half a thought\n\n</thi", kThinking, end);
    EXPECT_EQ(reply.reasoning, "half a thought\n\n</thi");
    EXPECT_EQ(reply.content, "");
  }
}

TEST(ReplyParser, CallsEndReasoningThatWasNotClosed) {
  const ParsedReply reply = parse("r" + block(invoke("f", "")) + "</think>gone", kThinking);
  EXPECT_EQ(reply.reasoning, "r");
  EXPECT_EQ(reply.content, "");
  EXPECT_EQ(reply.calls, (std::vector<ParsedCall>{{"f", "{}", true}}));
}

// A call that is cut at each of its bytes.
TEST(ReplyParser, CutCalls) {
  const std::string opening = tagged("\n\n<D calls>\n");
  const std::string call = invoke("f", parameter("k", "v") + "\n" + parameter("n", "1", false));
  const std::string first_parameter_end =
      tagged("<D invoke name=\"f\">\n") +
      parameter("k", "v").substr(0, parameter("k", "v").find(" parameter>"));
  for (const ReplyEnd end : {ReplyEnd::kEndOfText, ReplyEnd::kLength}) {
    for (size_t n = 1; n < call.size(); ++n) {
      const std::string text = "c" + opening + call.substr(0, n);
      const ParsedReply reply = parse_pieces({text}, kChat, end);
      EXPECT_EQ(reply.content, "c");
      const bool is_open = !reply.calls.empty() && !reply.calls[0].is_complete;
      const bool is_in_name = reply.calls.empty() && n >= tagged("<D invoke name=\"").size();
      ASSERT_EQ(reply.is_truncated, is_open || is_in_name) << text;
      EXPECT_EQ(reply.num_calls, !reply.calls.empty() && reply.calls[0].is_complete ? 1 : 0);
      const bool gives_raw = reply.is_truncated && end == ReplyEnd::kEndOfText;
      EXPECT_EQ(reply.unfinished, gives_raw ? text.substr(1) : "") << text;
      const bool is_whole = reply.num_calls > 0;
      EXPECT_FALSE(is_whole && n < first_parameter_end.size()) << text;
      EXPECT_TRUE(!is_whole || Json::parse(reply.calls[0].arguments).has_value());
    }
  }
}

TEST(ReplyParser, UnfinishedLaterCallIsGivenWithoutTheFirst) {
  const std::string second =
      tagged("<D invoke name=\"g\">\n<D parameter name=\"k\" string=\"true\">v");
  const std::string text = tagged("\n\n<D calls>\n") + invoke("f", "") + second;
  const ParsedReply reply = parse(text, kChat);
  EXPECT_EQ(reply.num_calls, 1);
  EXPECT_TRUE(reply.is_truncated);
  EXPECT_EQ(reply.unfinished, second);
  const ParsedReply again = parse(block(invoke("f", "")) + tagged("\n<D calls>") + second, kChat);
  EXPECT_EQ(again.unfinished, tagged("<D calls>") + second);
  // A half tag in the end is part of it.
  EXPECT_EQ(parse(text + "</｜", kChat).unfinished, second + "</｜");
}

TEST(ReplyParser, OneCallIsEnough) {
  ReplyOptions options = kChat;
  options.one_call = true;
  const std::string first = tagged("<D calls>\n<D invoke name=\"f\">\n\n</D");
  ReplyParser parser(options);
  ReplyOutput out;
  parser.push(std::string_view(first).substr(0, first.size() - 1), out);
  EXPECT_FALSE(parser.is_done());
  parser.push(first.substr(first.size() - 1), out);
  EXPECT_TRUE(parser.is_done());
  EXPECT_EQ(parser.num_calls(), 1);
  const ParsedReply reply =
      parse(block(invoke("f", "") + invoke("g", "")) + block(invoke("h", "")), options);
  EXPECT_EQ(reply.calls, (std::vector<ParsedCall>{{"f", "{}", true}}));
}

TEST(ReplyParser, OnlyTheNamedTool) {
  ReplyOptions options = {ReplyStart::kCalls, true, false, "g"};
  const std::string text = invoke("f", parameter("k", "v")) + invoke("g", "") +
                           invoke("gg", parameter("n", "1", false)) + invoke("g", "");
  const std::vector<ParsedCall> expected = {{"g", "{}", true}, {"g", "{}", true}};
  EXPECT_EQ(parse(text, options).calls, expected);
  options.one_call = true;
  EXPECT_EQ(parse(text, options).calls, (std::vector<ParsedCall>{{"g", "{}", true}}));
}

TEST(ReplyParser, AsciiBars) {
  const auto ascii = [](std::string text) {
    for (size_t at = text.find("｜"); at != std::string::npos; at = text.find("｜", at))
      text.replace(at, std::string_view("｜").size(), "|");
    return text;
  };
  const std::vector<ParsedCall> call = {{"f", R"({"k": "v"})", true}};
  const std::string calls = block(invoke("f", parameter("k", "v")));
  EXPECT_EQ(parse("c" + ascii(calls), kChat).calls, call);
  EXPECT_EQ(parse("c" + ascii(calls), kChat).content, "c");
  EXPECT_EQ(parse(ascii(calls).substr(2), kChat).calls, call);
  // In the middle of a line, in reasoning and without tools they are text.
  EXPECT_EQ(parse("c\n" + ascii(calls).substr(2), kChat).content, "c\n" + ascii(calls).substr(2));
  EXPECT_EQ(parse("r" + ascii(calls), kThinking).reasoning, "r" + ascii(calls));
  EXPECT_EQ(parse("c" + ascii(calls), {ReplyStart::kContentLead, false}).content,
            "c" + ascii(calls));
  // In the value of a proper block they are data, as wrong closers are.
  EXPECT_EQ(arguments_of("v</|DSML| parameter></parameter></invoke>"),
            R"({"k": "v</|DSML| parameter></parameter></invoke>"})");
  // A block with ASCII bars ends also with proper ones.
  EXPECT_EQ(parse(tagged("<|DSML| calls>\n<D invoke name=\"f\">") + parameter("k", "v") +
                      tagged("</D invoke></D calls>"),
                  kChat)
                .calls,
            call);
}

TEST(ReplyParser, WrongClosersAtBlockLevelAreSkipped) {
  const std::string text =
      tagged("<D calls>\n</invoke><D invoke name=\"f\">\n</|DSML| x>\n</invoke>") +
      parameter("k", "v") + tagged("</D invoke>\n</|DSML| calls>\n") + invoke("g", "") +
      tagged("</D calls>");
  const std::vector<ParsedCall> expected = {{"f", R"({"k": "v"})", true}, {"g", "{}", true}};
  EXPECT_EQ(parse(text, kChat).calls, expected);
}

TEST(ReplyParser, LongRunsTakeLinearTime) {
  constexpr size_t kLong = 4'000'000;
  for (const std::string& run :
       {std::string(kLong, '\n'), std::string(kLong, '<'), std::string(kLong, 'a')}) {
    ReplyParser parser(kChat);
    ReplyOutput out;
    parser.push("a", out);
    for (const char& c : run) parser.push({&c, 1}, out);
    parser.finish(ReplyEnd::kEndOfText, out);
    ASSERT_EQ(out.deltas.size(), 1U);
    EXPECT_EQ(out.deltas[0].text.size(), kLong + 1);
  }
  std::string value;
  while (value.size() < kLong) value += "</</｜DSML\n";
  const ParsedReply reply = parse_pieces({block(invoke("f", parameter("k", value)))}, kChat);
  ASSERT_EQ(reply.num_calls, 1);
  EXPECT_GT(reply.calls[0].arguments.size(), kLong);
}

}  // namespace
}  // namespace stoker::chat
