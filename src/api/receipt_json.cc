// Receipts as JSON, written and read. Reading believes nothing: a table says which members there
// are, and each has a reader that takes one kind of value. Source: docs/formats.md.
#include <algorithm>
#include <charconv>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "api/receipt.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/try.h"
#include "snapshot/digest.h"

namespace stoker {
namespace {

constexpr int64_t kReceiptFormat = 1;
constexpr JsonLimits kReceiptLimits{.max_depth = 4, .repeated_keys_allowed = false};
constexpr size_t kMaxShownValueBytes = 40;  // of a value or an unknown name in a message
constexpr const char* kStartNames[] = {"text",      "chat",          "thinking",
                                       "open_chat", "open_thinking", "calls"};  // as ReplyStart

// ---- Writing

Json ids_json(const std::vector<int32_t>& ids) {
  std::vector<Json> items;
  items.reserve(ids.size());
  for (const int32_t id : ids) items.push_back(Json::integer(id));
  return Json::array(std::move(items));
}

Json texts_json(const std::vector<std::string>& texts) {
  std::vector<Json> items;
  items.reserve(texts.size());
  for (const std::string& text : texts) items.push_back(Json::string(text));
  return Json::array(std::move(items));
}

Json bias_json(const std::map<int32_t, double>& bias) {
  std::vector<Json::Member> members;
  members.reserve(bias.size());
  for (const auto& [id, value] : bias) members.emplace_back(std::to_string(id), Json::real(value));
  return Json::object(std::move(members));
}

// What differs from the value that a member has if it is left out.
class ParameterWriter {
 public:
  void add(const char* name, Json value) { members_.emplace_back(name, std::move(value)); }
  void add_number(const char* name, double value, double usual) {
    if (value != usual) add(name, Json::real(value));
  }
  void add_true(const char* name, bool value) {
    if (value) add(name, Json::boolean(true));
  }
  void add_ids(const char* name, const std::vector<int32_t>& ids) {
    if (!ids.empty()) add(name, ids_json(ids));
  }
  void add_texts(const char* name, const std::vector<std::string>& texts) {
    if (!texts.empty()) add(name, texts_json(texts));
  }
  Json take() { return Json::object(std::move(members_)); }

 private:
  std::vector<Json::Member> members_;
};

// As Structure::Kind, which has none first.
constexpr const char* kStructureNames[] = {"",      "json_object", "json_schema",
                                           "regex", "choice",      "grammar"};

Json structure_json(const Structure& structure) {
  std::vector<Json::Member> members;
  members.reserve(5);
  members.emplace_back("kind", Json::string(kStructureNames[static_cast<size_t>(structure.kind)]));
  if (!structure.text.empty()) members.emplace_back("text", Json::string(structure.text));
  if (!structure.choices.empty()) {
    std::vector<Json> choices;
    for (const std::string& choice : structure.choices) choices.push_back(Json::string(choice));
    members.emplace_back("choices", Json::array(std::move(choices)));
  }
  members.emplace_back("any_whitespace", Json::boolean(structure.any_whitespace));
  members.emplace_back("disable_additional_properties",
                       Json::boolean(structure.disable_additional_properties));
  return Json::object(std::move(members));
}

Json repetition_json(const RepetitionDetection& detection) {
  Json out = Json::object();
  out.set("max_pattern_size", Json::integer(detection.max_pattern_size));
  out.set("min_pattern_size", Json::integer(detection.min_pattern_size));
  out.set("min_count", Json::integer(detection.min_count));
  return out;
}

Json parameters_json(const Request& request) {
  const SamplingParams& sampling = request.sampling;
  ParameterWriter out;
  out.add("seed", Json::unsigned_integer(sampling.seed.value_or(0)));
  out.add("max_tokens", Json::integer(request.max_tokens.value_or(0)));
  out.add_number("temperature", sampling.temperature.value_or(1), 1);
  out.add_number("top_p", sampling.top_p.value_or(1), 1);
  if (sampling.top_k.value_or(0) != 0) out.add("top_k", Json::integer(*sampling.top_k));
  out.add_number("min_p", sampling.min_p.value_or(0), 0);
  out.add_number("repetition_penalty", sampling.repetition_penalty.value_or(1), 1);
  out.add_number("presence_penalty", sampling.presence_penalty, 0);
  out.add_number("frequency_penalty", sampling.frequency_penalty, 0);
  if (!sampling.logit_bias.empty()) out.add("logit_bias", bias_json(sampling.logit_bias));
  out.add_ids("allowed_token_ids", sampling.allowed_token_ids);
  out.add_ids("banned_token_ids", sampling.banned_token_ids);
  out.add_texts("bad_words", sampling.bad_words);
  out.add_texts("stop", request.stop);
  out.add_true("stop_everywhere", request.stop_everywhere);
  out.add_true("include_stop_str_in_output", request.include_stop_str_in_output);
  out.add_ids("stop_token_ids", request.stop_token_ids);
  if (request.min_tokens != 0) out.add("min_tokens", Json::integer(request.min_tokens));
  out.add_true("ignore_eos", request.ignore_eos);
  if (request.thinking_token_budget)
    out.add("thinking_token_budget", Json::integer(*request.thinking_token_budget));
  if (request.repetition_detection)
    out.add("repetition_detection", repetition_json(*request.repetition_detection));
  if (request.structure.kind != Structure::Kind::kNone)
    out.add("structure", structure_json(request.structure));
  return out.take();
}

Json stop_json(const Receipt& receipt) {
  if (receipt.stop) return Json::string(*receipt.stop);
  return receipt.stop_token ? Json::integer(*receipt.stop_token) : Json();
}

// ---- Reading

Error wrong_member(const std::string& name, const std::string& expected, const Json& found) {
  std::string text = found.is_bool() ? found.dump() : found.kind_name();
  if (found.is_number()) text = found.as_string().substr(0, kMaxShownValueBytes);
  if (found.is_string()) text = json_quote(found.as_string().substr(0, kMaxShownValueBytes));
  return invalid(name, "expected " + expected + ", found " + text);
}

Result<int32_t> read_int(const Json& value, const std::string& name, int32_t least) {
  const auto number = value.as_int();
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  if (number && *number >= least && *number <= kMost) return static_cast<int32_t>(*number);
  return wrong_member(
      name, "an integer from " + std::to_string(least) + " to " + std::to_string(kMost), value);
}

Result<double> read_number(const Json& value, const std::string& name) {
  const auto number = value.as_double();
  if (!number) return wrong_member(name, "a number", value);
  return *number;
}

Result<bool> read_bool(const Json& value, const std::string& name) {
  if (!value.is_bool()) return wrong_member(name, "a boolean", value);
  return value.as_bool();
}

Result<std::string> read_text(const Json& value, const std::string& name) {
  if (!value.is_string()) return wrong_member(name, "a string", value);
  return value.as_string();
}

// A list of what `read` takes.
template <class Item>
Result<std::vector<Item>> read_list(const Json& value, const std::string& name,
                                    const char* expected,
                                    Result<Item> (*read)(const Json&, const std::string&)) {
  if (!value.is_array()) return wrong_member(name, expected, value);
  std::vector<Item> items;
  items.reserve(value.items().size());
  for (const Json& each : value.items()) {
    std::string place = name;
    place += "[" + std::to_string(items.size()) + "]";
    TRY_ASSIGN(Item item, read(each, place));
    items.push_back(std::move(item));
  }
  return items;
}

Result<std::vector<int32_t>> read_ids(const Json& value, const std::string& name) {
  return read_list<int32_t>(
      value, name, "an array of token ids",
      [](const Json& id, const std::string& at) { return read_int(id, at, 0); });
}

Result<std::vector<std::string>> read_texts(const Json& value, const std::string& name) {
  return read_list<std::string>(value, name, "an array of strings", read_text);
}

// Keys are ids as std::to_string writes them, so that none is there twice.
Result<std::map<int32_t, double>> read_bias(const Json& value, const std::string& name) {
  if (!value.is_object()) return wrong_member(name, "an object", value);
  std::map<int32_t, double> bias;
  for (const auto& [key, number] : value.members()) {
    int32_t id = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc() || id < 0 || std::to_string(id) != key) {
      return invalid(name, "expected a token id as key, found " +
                               json_quote(key.substr(0, kMaxShownValueBytes)));
    }
    std::string place = name;
    place += "." + key;
    TRY_ASSIGN(bias[id], read_number(number, place));
  }
  return bias;
}

// A member of an object: how its value is read into a receipt.
struct ReceiptMember {
  const char* name;
  bool is_required;
  Result<void> (*read)(const Json& value, const char* name, Receipt& receipt);
};

// Where a receipt has a member of one of its parts.
template <class Value>
Value& place_of(Value Receipt::*member, Receipt& receipt) {
  return receipt.*member;
}
template <class Value>
Value& place_of(Value Request::*member, Receipt& receipt) {
  return receipt.request.*member;
}
template <class Value>
Value& place_of(Value SamplingParams::*member, Receipt& receipt) {
  return receipt.request.sampling.*member;
}
template <class Value>
Value& place_of(Value TokenPrompt::*member, Receipt& receipt) {
  return std::get<TokenPrompt>(receipt.request.prompt).*member;
}

// Reads a value by `read` into the place of `member`.
template <auto read, auto member>
Result<void> read_into(const Json& value, const char* name, Receipt& receipt) {
  TRY_ASSIGN(place_of(member, receipt), read(value, name));
  return {};
}

template <int32_t least>
Result<int32_t> read_int_from(const Json& value, const std::string& name) {
  return read_int(value, name, least);
}

Result<uint64_t> read_seed(const Json& value, const std::string& name) {
  const auto seed = value.as_unsigned();
  if (!seed) return wrong_member(name, "an integer from 0 to 18446744073709551615", value);
  return *seed;
}

Result<Structure::Kind> read_structure_kind(const Json& value, const std::string& name) {
  for (size_t i = 1; i < std::size(kStructureNames); ++i) {
    if (value.is_string() && value.as_string() == kStructureNames[i])
      return static_cast<Structure::Kind>(i);
  }
  return wrong_member(name, "json_object, json_schema, regex, choice or grammar", value);
}

Result<Structure> read_structure(const Json& value, const std::string& name) {
  if (!value.is_object()) return wrong_member(name, "an object", value);
  Structure structure;
  for (const auto& [member, item] : value.members()) {
    const std::string path = name + "." + member.substr(0, kMaxShownValueBytes);
    if (member == "kind") {
      TRY_ASSIGN(structure.kind, read_structure_kind(item, path));
    } else if (member == "text") {
      TRY_ASSIGN(structure.text, read_text(item, path));
    } else if (member == "choices") {
      TRY_ASSIGN(structure.choices, read_texts(item, path));
    } else if (member == "any_whitespace") {
      TRY_ASSIGN(structure.any_whitespace, read_bool(item, path));
    } else if (member == "disable_additional_properties") {
      TRY_ASSIGN(structure.disable_additional_properties, read_bool(item, path));
    } else {
      return invalid(
          path, "expected kind, text, choices, any_whitespace or disable_additional_properties");
    }
  }
  if (structure.kind != Structure::Kind::kNone) return structure;
  return invalid(name, "expected an object with a kind");
}

Result<RepetitionDetection> read_repetition(const Json& value, const std::string& name) {
  if (!value.is_object()) return wrong_member(name, "an object", value);
  RepetitionDetection detection;
  for (const auto& [member, target] : {std::pair{"max_pattern_size", &detection.max_pattern_size},
                                       std::pair{"min_pattern_size", &detection.min_pattern_size},
                                       std::pair{"min_count", &detection.min_count}}) {
    const std::string path = name + "." + member;
    const Json* item = value.find(member);
    if (item == nullptr) return invalid(path, "expected a value, found none");
    TRY_ASSIGN(*target, read_int(*item, path, 0));
  }
  if (value.members().size() == 3) return detection;
  return invalid(name, "expected max_pattern_size, min_pattern_size and min_count, found " +
                           std::to_string(value.members().size()) + " members");
}

constexpr ReceiptMember kParameters[] = {
    {"seed", true, read_into<read_seed, &SamplingParams::seed>},
    {"max_tokens", true, read_into<read_int_from<1>, &Request::max_tokens>},
    {"temperature", false, read_into<read_number, &SamplingParams::temperature>},
    {"top_p", false, read_into<read_number, &SamplingParams::top_p>},
    {"top_k", false, read_into<read_int_from<-1>, &SamplingParams::top_k>},
    {"min_p", false, read_into<read_number, &SamplingParams::min_p>},
    {"repetition_penalty", false, read_into<read_number, &SamplingParams::repetition_penalty>},
    {"presence_penalty", false, read_into<read_number, &SamplingParams::presence_penalty>},
    {"frequency_penalty", false, read_into<read_number, &SamplingParams::frequency_penalty>},
    {"logit_bias", false, read_into<read_bias, &SamplingParams::logit_bias>},
    {"allowed_token_ids", false, read_into<read_ids, &SamplingParams::allowed_token_ids>},
    {"banned_token_ids", false, read_into<read_ids, &SamplingParams::banned_token_ids>},
    {"bad_words", false, read_into<read_texts, &SamplingParams::bad_words>},
    {"stop", false, read_into<read_texts, &Request::stop>},
    {"stop_everywhere", false, read_into<read_bool, &Request::stop_everywhere>},
    {"include_stop_str_in_output", false,
     read_into<read_bool, &Request::include_stop_str_in_output>},
    {"stop_token_ids", false, read_into<read_ids, &Request::stop_token_ids>},
    {"min_tokens", false, read_into<read_int_from<0>, &Request::min_tokens>},
    {"ignore_eos", false, read_into<read_bool, &Request::ignore_eos>},
    {"thinking_token_budget", false, read_into<read_int_from<0>, &Request::thinking_token_budget>},
    {"repetition_detection", false, read_into<read_repetition, &Request::repetition_detection>},
    {"structure", false, read_into<read_structure, &Request::structure>},
};

Result<std::vector<int32_t>> read_some_ids(const Json& value, const std::string& name) {
  TRY_ASSIGN(std::vector<int32_t> ids, read_ids(value, name));
  if (ids.empty()) return invalid(name, "expected at least one token id, found none");
  return ids;
}

Result<std::string> read_digest(const Json& value, const std::string& name) {
  if (snapshot::Digest::from_hex(value.is_string() ? value.as_string() : ""))
    return value.as_string();
  return wrong_member(name, "32 hexadecimal digits", value);
}

Result<ReplyStart> read_start(const Json& value, const std::string& name) {
  for (size_t i = 0; i < std::size(kStartNames); ++i) {
    if (value.is_string() && value.as_string() == kStartNames[i]) return static_cast<ReplyStart>(i);
  }
  return wrong_member(name, "text, chat, thinking, open_chat, open_thinking or calls", value);
}

Result<bool> read_true(const Json& value, const std::string& name) {
  if (value.is_bool() && value.as_bool()) return true;
  return wrong_member(name, "true, or no such member", value);
}

// The name of a start, or an object where calls are looked for.
Result<ReplyFormat> read_reply(const Json& value, const std::string& name) {
  ReplyFormat reply;
  if (!value.is_object()) {
    TRY_ASSIGN(reply.start, read_start(value, name));
    return reply;
  }
  for (const auto& [member, item] : value.members()) {
    const std::string path = name + "." + member.substr(0, kMaxShownValueBytes);
    if (member == "start") {
      TRY_ASSIGN(reply.start, read_start(item, path));
    } else if (member == "calls") {
      TRY_ASSIGN(reply.has_calls, read_true(item, path));
    } else if (member == "one_call") {
      TRY_ASSIGN(reply.one_call, read_true(item, path));
    } else if (member == "only_tool" && item.is_string() && !item.as_string().empty()) {
      reply.only_tool = item.as_string();
    } else {
      return invalid(path, "expected start, calls, one_call or only_tool, a name");
    }
  }
  if (reply.has_calls && reply.start != ReplyStart::kText) return reply;
  return invalid(name, "expected an object with start, not text, and calls");
}

Json reply_json(const ReplyFormat& reply) {
  Json start = Json::string(kStartNames[static_cast<size_t>(reply.start)]);
  if (!reply.has_calls) return start;
  std::vector<Json::Member> members;
  members.reserve(4);
  members.emplace_back("start", std::move(start));
  members.emplace_back("calls", Json::boolean(true));
  if (reply.one_call) members.emplace_back("one_call", Json::boolean(true));
  if (!reply.only_tool.empty()) members.emplace_back("only_tool", Json::string(reply.only_tool));
  return Json::object(std::move(members));
}

Result<FinishReason> read_reason(const Json& value, const std::string& name) {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCalls, FinishReason::kRepetition}) {
    if (value.is_string() && value.as_string() == to_string(reason)) return reason;
  }
  return wrong_member(name, "stop, length, tool_calls or repetition", value);
}

Result<void> read_stop_reason(const Json& value, const char* name, Receipt& receipt) {
  if (value.is_null()) return {};
  if (value.is_string()) {
    receipt.stop = value.as_string();
  } else if (value.is_number()) {
    TRY_ASSIGN(receipt.stop_token, read_int(value, name, 0));
  } else {
    return wrong_member(name, "a string, a token id or null", value);
  }
  return {};
}

Result<void> read_format(const Json& value, const char* name, Receipt& /*receipt*/) {
  if (value.as_int() == kReceiptFormat) return {};
  return wrong_member(name, std::to_string(kReceiptFormat) + ", the format that this Stoker reads",
                      value);
}

Result<void> read_members(const Json& object, const char* what,
                          std::span<const ReceiptMember> members, Receipt& receipt) {
  std::vector<std::string_view> names;
  // Before what is unknown, so that a newer format is told as one.
  for (const ReceiptMember& member : members) {
    const Json* value = object.find(member.name);
    names.emplace_back(member.name);
    if (value == nullptr && member.is_required)
      return invalid(member.name, std::string("expected a value in ") + what + ", found none");
    if (value == nullptr) continue;
    if (auto read = member.read(*value, member.name, receipt); !read) return read;
  }
  for (const auto& [name, value] : object.members()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string found = json_quote(name.substr(0, kMaxShownValueBytes));
    return invalid(
        found, std::string("unknown in ") + what + "; did you mean \"" +
                   std::string(nearest_name(name.substr(0, kMaxShownValueBytes), names)) + "\"?");
  }
  return {};
}

Result<void> read_parameters(const Json& value, const char* name, Receipt& receipt) {
  if (!value.is_object()) return wrong_member(name, "an object", value);
  return read_members(value, "parameters", kParameters, receipt);
}

Result<Tool> read_tool(const Json& value, const std::string& name) {
  if (!value.is_object()) return wrong_member(name, "an object", value);
  Tool tool;
  for (const auto& [member, item] : value.members()) {
    const std::string path = name + "." + member.substr(0, kMaxShownValueBytes);
    if (member == "name") {
      TRY_ASSIGN(tool.name, read_text(item, path));
    } else if (member == "parameters") {
      TRY_ASSIGN(tool.parameters, read_text(item, path));
    } else if (member == "strict") {
      TRY_ASSIGN(tool.strict, read_true(item, path));
    } else {
      return invalid(path, "expected name, parameters or strict");
    }
  }
  if (!tool.name.empty()) return tool;
  return invalid(name, "expected an object with a name");
}

Result<std::vector<Tool>> read_tools(const Json& value, const std::string& name) {
  return read_list<Tool>(value, name, "an array of tools", read_tool);
}

Json tools_json(const std::vector<Tool>& tools) {
  std::vector<Json> items;
  items.reserve(tools.size());
  for (const Tool& tool : tools) {
    Json item = Json::object();
    item.set("name", Json::string(tool.name));
    if (tool.parameters) item.set("parameters", Json::string(*tool.parameters));
    if (tool.strict) item.set("strict", Json::boolean(true));
    items.push_back(std::move(item));
  }
  return Json::array(std::move(items));
}

constexpr ReceiptMember kMembers[] = {
    {"stoker_receipt", true, read_format},
    {"version", true, read_into<read_text, &Receipt::version>},
    {"model", true, read_into<read_text, &Receipt::model>},
    {"model_digest", true, read_into<read_digest, &Receipt::model_digest>},
    {"numeric_mode", true, read_into<read_text, &Receipt::numeric_mode>},
    {"prompt_ids", true, read_into<read_some_ids, &TokenPrompt::ids>},
    {"reply", false, read_into<read_reply, &TokenPrompt::reply>},
    {"tools", false, read_into<read_tools, &TokenPrompt::tools>},
    {"must_call", false, read_into<read_true, &TokenPrompt::must_call>},
    {"parameters", true, read_parameters},
    {"ids", true, read_into<read_some_ids, &Receipt::ids>},
    {"finish_reason", true, read_into<read_reason, &Receipt::reason>},
    {"stop_reason", false, read_stop_reason},
};

// What members say of each other.
Result<void> check_lengths(const Receipt& receipt) {
  const auto count = static_cast<int64_t>(receipt.ids.size());
  const int64_t most = *receipt.request.max_tokens;
  const bool is_length = receipt.reason == FinishReason::kLength;
  const int64_t least = is_length ? most : receipt.request.min_tokens;
  if (count >= least && count <= most) return {};
  return invalid("ids", "expected " + std::to_string(least) + " to " + std::to_string(most) +
                            " of them, by parameters and finish_reason, found " +
                            std::to_string(count));
}

// All that may be left out.
Receipt receipt_of_defaults() {
  Receipt receipt;
  receipt.request.prompt = TokenPrompt{};
  SamplingParams& sampling = receipt.request.sampling;
  sampling.temperature = sampling.top_p = sampling.repetition_penalty = 1;
  sampling.top_k = 0;
  sampling.min_p = 0;
  return receipt;
}

}  // namespace

std::string receipt_json(const Receipt& receipt) {
  const auto* prompt = std::get_if<TokenPrompt>(&receipt.request.prompt);
  const TokenPrompt none;
  if (prompt == nullptr) prompt = &none;
  std::vector<Json::Member> members;
  members.reserve(std::size(kMembers));
  members.emplace_back("stoker_receipt", Json::integer(kReceiptFormat));
  members.emplace_back("version", Json::string(receipt.version));
  members.emplace_back("model", Json::string(receipt.model));
  members.emplace_back("model_digest", Json::string(receipt.model_digest));
  members.emplace_back("numeric_mode", Json::string(receipt.numeric_mode));
  members.emplace_back("prompt_ids", ids_json(prompt->ids));
  if (prompt->reply != ReplyFormat()) members.emplace_back("reply", reply_json(prompt->reply));
  if (!prompt->tools.empty()) members.emplace_back("tools", tools_json(prompt->tools));
  if (prompt->must_call) members.emplace_back("must_call", Json::boolean(true));
  members.emplace_back("parameters", parameters_json(receipt.request));
  members.emplace_back("ids", ids_json(receipt.ids));
  members.emplace_back("finish_reason", Json::string(to_string(receipt.reason)));
  members.emplace_back("stop_reason", stop_json(receipt));
  return Json::object(std::move(members)).dump();
}

Result<Receipt> parse_receipt(std::string_view text) {
  const auto json = Json::parse(text, kReceiptLimits);
  if (!json) return Error{ErrorCode::kInvalidArgument, json.error().message, ""};
  if (!json->is_object()) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("expected a receipt, a JSON object, found ") + json->kind_name(), ""};
  }
  Receipt receipt = receipt_of_defaults();
  if (auto read = read_members(*json, "a receipt", kMembers, receipt); !read)
    return std::move(read).error();
  if (auto checked = check_lengths(receipt); !checked) return std::move(checked).error();
  return receipt;
}

}  // namespace stoker
