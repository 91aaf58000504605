#include "chat/call_builder.h"

#include <utility>

#include "base/json.h"

namespace stoker::chat {
namespace {

// Stands one level deeper in the arguments, which are to be within the limits of Json themselves.
constexpr JsonLimits kValueLimits = {JsonLimits{}.max_depth - 1, JsonLimits{}.max_values / 2, true};

bool is_json(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some parsers skip it in front
  return !text.starts_with(kByteOrderMark) && Json::parse(text, kValueLimits).has_value();
}

// Whether a byte may not stand in a string of JSON. Other than json_quote this needs no whole
// characters.
bool is_escaped(char c) {
  return c == '"' || c == '\\' || static_cast<uint8_t>(c) < 0x20;
}

std::string escape_of(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  constexpr char kHex[] = "0123456789abcdef";
  return {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
}

}  // namespace

void append_delta(std::vector<Delta>& deltas, DeltaKind kind, int32_t call, std::string_view text) {
  if (deltas.empty() || deltas.back().kind != kind || deltas.back().call != call) {
    deltas.push_back({kind, call});
  }
  deltas.back().text += text;
}

void CallBuilder::add(std::string_view json, std::vector<Delta>& out) {
  if (is_wanted_) append_delta(out, DeltaKind::kCallArguments, num_calls_, json);
}

void CallBuilder::add_escaped(std::string_view text, std::vector<Delta>& out) {
  size_t raw = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_escaped(text[i])) continue;
    add(text.substr(raw, i - raw), out);
    add(escape_of(text[i]), out);
    raw = i + 1;
  }
  if (raw < text.size()) add(text.substr(raw), out);
}

void CallBuilder::begin(std::vector<Delta>& out) {
  is_wanted_ = !only_tool_.has_value() || name_ == *only_tool_;
  has_parameters_ = false;
  if (is_wanted_) append_delta(out, DeltaKind::kCallBegin, num_calls_, name_);
  name_.clear();
}

void CallBuilder::begin_parameter(std::vector<Delta>& out) {
  add(std::exchange(has_parameters_, true) ? ", \"" : "{\"", out);
}

void CallBuilder::end_key(std::vector<Delta>& out) {
  add("\": ", out);
}

void CallBuilder::begin_text(std::vector<Delta>& out) {
  add("\"", out);
}

void CallBuilder::end_text(std::vector<Delta>& out) {
  add("\"", out);
}

void CallBuilder::end_value(std::vector<Delta>& out) {
  add(is_json(value_) ? value_ : json_quote(value_), out);
  value_.clear();
}

void CallBuilder::end(std::vector<Delta>& out) {
  add(has_parameters_ ? "}" : "{}", out);
  if (!is_wanted_) return;
  append_delta(out, DeltaKind::kCallEnd, num_calls_, "");
  ++num_calls_;
}

}  // namespace stoker::chat
