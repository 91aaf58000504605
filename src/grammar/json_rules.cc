#include "grammar/json_rules.h"

#include <string>
#include <vector>

namespace stoker::grammar {
namespace {

constexpr uint32_t kMaxIndent = 64;

ByteSet bytes_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(static_cast<uint8_t>(byte));
  return set;
}

ByteSet hex_digits() {
  return bytes_of("0123456789abcdefABCDEF");
}

// The four digits behind \u: one character, or a pair of surrogates.
NodeId unicode_escape(GrammarBuilder& builder) {
  const NodeId hex = builder.bytes(hex_digits());
  const NodeId d = builder.bytes(bytes_of("dD"));
  const NodeId two = builder.repeat(hex, 2, 2);
  const NodeId plain =
      builder.sequence({builder.bytes(hex_digits() & ~bytes_of("dD")), builder.repeat(hex, 3, 3)});
  const NodeId below = builder.sequence({d, builder.bytes(byte_range('0', '7')), two});
  const NodeId pair =
      builder.sequence({d, builder.bytes(bytes_of("89abAB")), two, builder.literal("\\u"), d,
                        builder.bytes(bytes_of("cdefCDEF")), two});
  return builder.choice({plain, below, pair});
}

}  // namespace

NodeId JsonRules::space() {
  if (!space_) {
    const NodeId blanks = builder_.repeat(builder_.bytes(bytes_of(" \t")), 0, kMaxIndent);
    const NodeId line = builder_.sequence({builder_.literal("\n"), blanks});
    // Shared: in place it would be 66 states wherever values meet.
    space_ = builder_.optional(
        builder_.shared_rule("space", builder_.choice({builder_.literal(" "), line})));
  }
  return any_whitespace_ ? *space_ : builder_.empty();
}

NodeId JsonRules::open(char bracket) {
  return builder_.sequence({builder_.literal({&bracket, 1}), space()});
}

NodeId JsonRules::close(char bracket) {
  return builder_.sequence({space(), builder_.literal({&bracket, 1})});
}

NodeId JsonRules::comma() {
  if (!any_whitespace_) return builder_.literal(", ");
  return builder_.sequence({builder_.literal(","), space()});
}

NodeId JsonRules::colon() {
  if (!any_whitespace_) return builder_.literal(": ");
  return builder_.sequence({builder_.literal(":"), space()});
}

NodeId JsonRules::character() {
  if (!character_) {
    ByteSet ascii = byte_range(0x20, 0x7F);
    ascii.reset('"').reset('\\');
    const NodeId digits = builder_.shared_rule("unicode escape", unicode_escape(builder_));
    const NodeId escape =
        builder_.sequence({builder_.literal("\\"),
                           builder_.choice({builder_.bytes(bytes_of("\"\\/bfnrt")),
                                            builder_.sequence({builder_.literal("u"), digits})})});
    character_ = builder_.choice({builder_.bytes(ascii), builder_.multibyte(), escape});
  }
  return *character_;
}

NodeId JsonRules::string() {
  if (!string_rest_) {
    string_rest_ = builder_.shared_rule(
        "string", builder_.sequence({builder_.repeat(character(), 0), builder_.literal("\"")}));
  }
  return builder_.sequence({builder_.literal("\""), *string_rest_});
}

NodeId JsonRules::string_of_length(uint32_t min, uint32_t max) {
  const auto found = lengths_.find({min, max});
  if (found != lengths_.end()) return found->second;
  const NodeId rest = builder_.shared_rule(
      "string of " + std::to_string(min) + " to " + std::to_string(max),
      builder_.sequence({builder_.repeat(character(), min, max), builder_.literal("\"")}));
  const NodeId made = builder_.sequence({builder_.literal("\""), rest});
  lengths_.emplace(std::pair{min, max}, made);
  return made;
}

NodeId JsonRules::integer() {
  const NodeId digits =
      builder_.sequence({builder_.bytes(byte_range('1', '9')),
                         builder_.repeat(builder_.bytes(byte_range('0', '9')), 0)});
  return builder_.sequence(
      {builder_.optional(builder_.literal("-")), builder_.choice({builder_.literal("0"), digits})});
}

NodeId JsonRules::number() {
  const NodeId digit = builder_.bytes(byte_range('0', '9'));
  const NodeId fraction = builder_.sequence({builder_.literal("."), builder_.repeat(digit, 1)});
  // More digits would be beyond what readers take for a number.
  const NodeId exponent = builder_.sequence({builder_.bytes(bytes_of("eE")),
                                             builder_.optional(builder_.bytes(bytes_of("+-"))),
                                             builder_.repeat(digit, 1, 2)});
  return builder_.sequence({integer(), builder_.optional(fraction), builder_.optional(exponent)});
}

NodeId JsonRules::boolean() {
  return builder_.choice({builder_.literal("true"), builder_.literal("false")});
}

NodeId JsonRules::value() {
  if (!value_) {
    value_ = builder_.declare("value");  // before its parts, which refer to it
    builder_.define(*value_, builder_.choice({object(), array(), string(), number(), boolean(),
                                              builder_.literal("null")}));
  }
  return builder_.rule(*value_);
}

NodeId JsonRules::object() {
  if (!object_) {
    const RuleId rule = builder_.declare("object", true);
    object_ = builder_.rule(rule);
    const NodeId member = builder_.sequence({string(), colon(), value()});
    builder_.define(rule, list('{', member, 0, kUnbounded));
  }
  return *object_;
}

NodeId JsonRules::array() {
  if (!array_) {
    const RuleId rule = builder_.declare("array", true);
    array_ = builder_.rule(rule);
    builder_.define(rule, list('[', value(), 0, kUnbounded));
  }
  return *array_;
}

NodeId JsonRules::list(char open_bracket, NodeId item, uint32_t min, uint32_t max) {
  const char close_bracket = open_bracket == '{' ? '}' : ']';
  const NodeId begin = open(open_bracket);
  const NodeId nothing = builder_.literal({&close_bracket, 1});
  if (max == 0) return builder_.sequence({begin, nothing});
  const NodeId more = builder_.repeat(builder_.sequence({comma(), item}), min > 0 ? min - 1 : 0,
                                      max == kUnbounded ? kUnbounded : max - 1);
  NodeId rest = builder_.sequence({item, more, close(close_bracket)});
  if (min == 0) rest = builder_.choice({rest, nothing});
  return builder_.sequence({begin, rest});
}

NodeId JsonRules::constant(const Json& value) {
  if (!value.is_array() && !value.is_object()) return builder_.literal(value.dump());
  const bool is_object = value.is_object();
  const size_t size = is_object ? value.members().size() : value.items().size();
  std::vector<NodeId> parts = {open(is_object ? '{' : '[')};
  for (size_t i = 0; i < size; ++i) {
    if (i > 0) parts.push_back(comma());
    if (is_object) {
      parts.push_back(builder_.literal(json_quote(value.members()[i].first)));
      parts.push_back(colon());
    }
    parts.push_back(constant(is_object ? value.members()[i].second : value.items()[i]));
  }
  // One run of white space in an empty pair of brackets, as elsewhere.
  const char bracket = is_object ? '}' : ']';
  parts.push_back(size == 0 ? builder_.literal({&bracket, 1}) : close(bracket));
  return builder_.sequence(parts);
}

}  // namespace stoker::grammar
