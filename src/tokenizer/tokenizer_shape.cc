#include "tokenizer/tokenizer_shape.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace stoker {
namespace {

// "*": anything, and "?": anything or nothing.
constexpr std::string_view kShape = R"json({
  "version": "?",
  "truncation": null,
  "padding": null,
  "added_tokens": "*",
  "normalizer": {"type": "Sequence", "normalizers": []},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false,
     "pattern": {"Regex": "\\p{N}{1,3}"}},
    {"type": "Split", "behavior": "Isolated", "invert": false,
     "pattern": {"Regex": "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"}},
    {"type": "Split", "behavior": "Isolated", "invert": false,
     "pattern": {"Regex": "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
  "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": "?", "ignore_merges": "?",
    "vocab": "*", "merges": "*"}
})json";

constexpr std::string_view kAddedTokenShape = R"json({
  "id": "*", "content": "*", "single_word": false, "lstrip": false, "rstrip": false, "normalized": "*", "special": "*"
})json";

constexpr size_t kMaxQuoted = 160;  // bytes of a found value in a message

bool is_wildcard(const Json& expected) {
  return expected.as_string() == "*" || expected.as_string() == "?";
}

bool may_be_absent(const Json& expected) {
  return expected.is_null() || expected.as_string() == "?";
}

Result<void> match(const Json& expected, const Json& found, const std::string& place);

Result<void> match_array(const Json& expected, const Json& found, const std::string& place) {
  const size_t count = expected.items().size();
  if (found.items().size() != count) {
    return unexpected(ErrorCode::kUnsupported, place, std::to_string(count) + " items", &found);
  }
  for (size_t i = 0; i < count; ++i) {
    auto item = match(expected.items()[i], found.items()[i], place + "[" + std::to_string(i) + "]");
    if (!item) return item;
  }
  return {};
}

Result<void> match_object(const Json& expected, const Json& found, const std::string& place) {
  const std::string prefix = place.empty() ? "" : place + ".";
  for (const auto& [name, value] : found.members()) {
    if (expected.find(name) == nullptr) {
      return unexpected(ErrorCode::kUnsupported, prefix + repair_utf8(name.substr(0, kMaxQuoted)),
                        "no such member", &value);
    }
  }
  for (const auto& [name, value] : expected.members()) {
    const Json* member = found.find(name);
    if (member == nullptr && may_be_absent(value)) continue;
    if (member == nullptr)
      return unexpected(ErrorCode::kUnsupported, prefix + name, "a value", nullptr);
    auto same = match(value, *member, prefix + name);
    if (!same) return same;
  }
  return {};
}

Result<void> match(const Json& expected, const Json& found, const std::string& place) {
  if (is_wildcard(expected)) return {};
  if (expected.kind() == found.kind()) {
    if (expected.is_object()) return match_object(expected, found, place);
    if (expected.is_array()) return match_array(expected, found, place);
    if (expected.is_bool() && expected.as_bool() == found.as_bool()) return {};
    if (expected.is_string() && expected.as_string() == found.as_string()) return {};
    if (expected.is_null()) return {};
  }
  const bool composite = expected.is_object() || expected.is_array();
  return unexpected(ErrorCode::kUnsupported, place,
                    composite ? expected.kind_name() : expected.dump(), &found);
}

Json parse_shape(std::string_view text) {
  auto shape = Json::parse(text);
  CHECK(shape.has_value(), "a shape is JSON");
  return *std::move(shape);
}

}  // namespace

Error unexpected(ErrorCode code, const std::string& place, const std::string& expected,
                 const Json* found) {
  std::string what = "nothing";
  if (found != nullptr) {
    const bool composite = found->is_object() || found->is_array();
    what = composite ? found->kind_name() : found->dump();
    if (found->is_array()) what += " of " + std::to_string(found->items().size());
  }
  if (what.size() > kMaxQuoted) what = repair_utf8(what.substr(0, kMaxQuoted)) + "...";
  return {code, (place.empty() ? "the file" : place) + ": expected " + expected + ", found " + what,
          ""};
}

Result<void> check_tokenizer_shape(const Json& root) {
  static const Json expected = parse_shape(kShape);
  auto same = match(expected, root, "");
  if (!same) return same;
  for (const char* flag : {"byte_fallback", "ignore_merges"}) {
    const Json* value = root.find("model")->find(flag);
    if (value != nullptr && (!value->is_bool() || value->as_bool())) {
      return unexpected(ErrorCode::kUnsupported, std::string("model.") + flag, "false", value);
    }
  }
  return {};
}

Result<void> check_added_token_shape(const Json& item, const std::string& place) {
  static const Json expected = parse_shape(kAddedTokenShape);
  return match(expected, item, place);
}

}  // namespace stoker
