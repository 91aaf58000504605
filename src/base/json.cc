#include "base/json.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <charconv>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr size_t kIndexedMembers =
    32;  // objects beyond this size look repeated keys up in a hash table

// Builds a Json from nlohmann's parse events. Frames are the open arrays and objects, innermost
// last.
class Builder {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(Json::boolean(value)); }
  bool number_integer(int64_t value) { return put(Json::integer(value)); }
  bool number_unsigned(uint64_t value) { return put(Json::unsigned_integer(value)); }
  bool number_float(double /*value*/, const std::string& text) {
    return put(Json::number_text(text));
  }
  bool string(std::string& value) { return put(Json::string(std::move(value))); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }

  bool start_object(size_t /*size*/) { return open(true); }
  bool start_array(size_t /*size*/) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Frame& frame = frames_.back();
    frame.slot = find(frame, name);
    if (frame.slot < frame.members.size()) {
      if (limits_.repeated_keys_allowed) return true;
      return fail("the key " + json_quote(name.substr(0, 200)) + " is there twice");
    }
    if (frame.members.size() >= kIndexedMembers) frame.index.emplace(name, frame.members.size());
    frame.members.emplace_back(std::move(name), Json());
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& exception) {
    std::string what = exception.what();
    const size_t bracket =
        what.find("] ");  // "[json.exception.parse_error.101] parse error at line ..."
    if (bracket != std::string::npos) what.erase(0, bracket + 2);
    return fail("not JSON at byte " + std::to_string(position) + ": " + what);
  }

  Json root;
  std::string error;

 private:
  struct Frame {
    bool is_object = false;
    std::vector<Json> items;
    std::vector<Json::Member> members;
    size_t slot = 0;  // of an object: the member whose value comes next
    boost::unordered_flat_map<std::string, size_t, std::hash<std::string>> index;
  };

  static size_t find(Frame& frame, const std::string& name) {
    auto& members = frame.members;
    if (members.size() < kIndexedMembers) {
      size_t i = 0;
      while (i < members.size() && members[i].first != name) ++i;
      return i;
    }
    if (frame.index.empty()) {
      for (size_t i = 0; i < members.size(); ++i) frame.index.emplace(members[i].first, i);
    }
    const auto found = frame.index.find(name);
    return found == frame.index.end() ? members.size() : found->second;
  }

  bool fail(std::string message) {
    if (error.empty()) error = std::move(message);
    return false;
  }

  bool count() {
    if (++num_values_ <= limits_.max_values) return true;
    return fail("more than " + std::to_string(limits_.max_values) + " values");
  }

  bool open(bool is_object) {
    if (frames_.size() >= limits_.max_depth) {
      return fail("nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    }
    frames_.emplace_back().is_object = is_object;
    return count();
  }

  bool close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    return place(frame.is_object ? Json::object(std::move(frame.members))
                                 : Json::array(std::move(frame.items)));
  }

  bool put(Json value) { return count() && place(std::move(value)); }

  bool place(Json value) {
    if (frames_.empty()) {
      root = std::move(value);
    } else if (Frame& frame = frames_.back(); frame.is_object) {
      frame.members[frame.slot].second = std::move(value);
    } else {
      frame.items.push_back(std::move(value));
    }
    return true;
  }

  const JsonLimits& limits_;
  std::vector<Frame> frames_;
  size_t num_values_ = 0;
};

// The code unit of the escape \uXXXX at text[at], or -1.
int escaped_unit(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int unit = 0;
  const auto [end, error] = std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
  return error == std::errc() && end == text.data() + at + 6 && text[at + 2] != '-' ? unit : -1;
}

bool is_high_surrogate(int unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low_surrogate(int unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

// Positions of \uXXXX escapes that are half of a surrogate pair without its other half.
std::vector<size_t> unpaired_surrogates(std::string_view text) {
  std::vector<size_t> places;
  for (size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at)) {
    const int unit = escaped_unit(text, at);
    if (is_high_surrogate(unit) && is_low_surrogate(escaped_unit(text, at + 6))) {
      at += 12;
      continue;
    }
    if (is_high_surrogate(unit) || is_low_surrogate(unit)) places.push_back(at);
    at += unit < 0 ? 2 : 6;
  }
  return places;
}

// How many bytes in front are ASCII that stands in a string of JSON as it is.
size_t num_plain_ascii(std::string_view text) {
  const auto* end = std::find_if(text.begin(), text.end(), [](char c) {
    return static_cast<signed char>(c) < 0x20 || c == '"' || c == '\\';
  });
  return static_cast<size_t>(end - text.begin());
}

template <class Value>
const Value& value_or_empty(const Value* value) {
  static const Value empty;
  return value != nullptr ? *value : empty;
}

template <class Number>
std::optional<Number> whole_number(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const std::string& text = value.as_string();
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Json Json::boolean(bool value) {
  Json json;
  json.value_ = value;
  return json;
}

Json Json::integer(int64_t value) {
  return number_text(std::to_string(value));
}

Json Json::unsigned_integer(uint64_t value) {
  return number_text(std::to_string(value));
}

Json Json::real(double value) {
  if (!std::isfinite(value)) return {};
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return number_text(std::string(text, end));
}

Json Json::string(std::string value) {
  Json json;
  json.value_ = std::move(value);
  return json;
}

Json Json::array(std::vector<Json> items) {
  Json json;
  json.value_ = std::move(items);
  return json;
}

Json Json::object(std::vector<Member> members) {
  Json json;
  json.value_ = std::move(members);
  return json;
}

Json Json::number_text(std::string text) {
  Json json;
  json.value_ = Number{std::move(text)};
  return json;
}

Result<Json> Json::parse(std::string_view text, const JsonLimits& limits) {
  // The parser behind it reads a zero byte between tokens as the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "not JSON at byte " + std::to_string(zero + 1) + ": a zero byte", ""};
  }
  std::string repaired;
  if (const auto places = unpaired_surrogates(text); !places.empty()) {
    repaired = text;
    for (const size_t at : places) repaired.replace(at, 6, "\\ufffd");
    text = repaired;
  }
  Builder builder(limits);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return Error{ErrorCode::kInvalidArgument, builder.error, ""};
  }
  return std::move(builder.root);
}

const char* Json::kind_name() const {
  constexpr const char* kNames[] = {"null",     "a boolean", "a number",
                                    "a string", "an array",  "an object"};
  return kNames[value_.index()];
}

bool Json::as_bool() const {
  const bool* value = std::get_if<bool>(&value_);
  return value != nullptr && *value;
}

const std::string& Json::as_string() const {
  if (const auto* number = std::get_if<Number>(&value_)) return number->text;
  return value_or_empty(std::get_if<std::string>(&value_));
}

std::optional<int64_t> Json::as_int() const {
  return whole_number<int64_t>(*this);
}

std::optional<uint64_t> Json::as_unsigned() const {
  return whole_number<uint64_t>(*this);
}

std::optional<double> Json::as_double() const {
  const auto number = whole_number<double>(*this);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

const std::vector<Json>& Json::items() const {
  return value_or_empty(std::get_if<std::vector<Json>>(&value_));
}

const std::vector<Json::Member>& Json::members() const {
  return value_or_empty(std::get_if<std::vector<Member>>(&value_));
}

const Json* Json::find(std::string_view name) const {
  for (const auto& [key, value] : members()) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Json::set(std::string name, Json value) {
  auto* members = std::get_if<std::vector<Member>>(&value_);
  CHECK(members != nullptr, "set is for objects");
  for (auto& [key, old] : *members) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  members->emplace_back(std::move(name), std::move(value));
}

void Json::push(Json value) {
  auto* items = std::get_if<std::vector<Json>>(&value_);
  CHECK(items != nullptr, "push is for arrays");
  items->push_back(std::move(value));
}

std::string Json::dump() const {
  std::string out;
  append_json(out, *this, {});
  return out;
}

void append_json(std::string& out, const Json& value, const JsonStyle& style) {
  const char* comma = "";
  switch (value.kind()) {
    case Json::Kind::kNull:
      out += "null";
      break;
    case Json::Kind::kBool:
      out += value.as_bool() ? "true" : "false";
      break;
    case Json::Kind::kNumber:
      if (style.append_number != nullptr) {
        style.append_number(out, value.as_string());
      } else {
        out += value.as_string();
      }
      break;
    case Json::Kind::kString:
      out += json_quote(value.as_string());
      break;
    case Json::Kind::kArray:
      out += '[';
      for (const Json& item : value.items()) {
        out += comma;
        append_json(out, item, style);
        comma = style.comma;
      }
      out += ']';
      break;
    case Json::Kind::kObject:
      out += '{';
      for (const auto& [name, member] : value.members()) {
        out += comma;
        out += json_quote(name);
        out += style.colon;
        append_json(out, member, style);
        comma = style.comma;
      }
      out += '}';
      break;
  }
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  out.reserve(text.size() + 2);
  for (size_t at = 0; at < text.size();) {
    if (const size_t plain = num_plain_ascii(text.substr(at)); plain > 0) {
      out += text.substr(at, plain);
      at += plain;
      continue;
    }
    const CodePoint c = decode_utf8(text, at);
    switch (c.value) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (c.value < 0x20) {
          constexpr char kHex[] = "0123456789abcdef";
          out += "\\u00";
          out += kHex[c.value >> 4];
          out += kHex[c.value & 15];
        } else {
          append_utf8(out, c.value);
        }
    }
    at += c.length;
  }
  out += '"';
  return out;
}

}  // namespace stoker
