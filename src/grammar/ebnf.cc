#include "grammar/ebnf.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/try.h"
#include "base/utf8.h"
#include "grammar/code_point_set.h"
#include "grammar/scanner.h"

namespace stoker::grammar {
namespace {

constexpr int kMaxGroupDepth = 100;

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_char(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

class EbnfParser : private Scanner {
 public:
  explicit EbnfParser(std::string_view text) : Scanner(text, "grammar") {}

  Result<Grammar> parse() {
    if (!is_valid_utf8(text_)) return bad("UTF-8");
    for (skip(); !at_end(); skip())
      if (Result<void> done = parse_rule(); !done) return std::move(done).error();
    for (const auto& [name, rule] : rules_) {
      if (rule.defined) continue;
      at_ = rule.first_use;
      return bad("a rule that is defined somewhere: \"" + name + "\" is not");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return bad("a rule \"root\"");
    const NodeId start = builder_.rule(root->second.id);
    return std::move(builder_).finish(start);
  }

 private:
  struct Named {
    RuleId id = 0;
    bool defined = false;
    size_t first_use = 0;
  };

  // White space, line ends and comments.
  void skip() {
    while (!at_end()) {
      const char c = peek();
      if (c == '#' || (c == '/' && peek(1) == '/')) {
        while (!at_end() && peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string take_name() {
    const size_t begin = at_;
    while (!at_end() && is_name_char(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // A name with ::= behind it begins the next rule.
  bool begins_rule() {
    const size_t back = at_;
    take_name();
    skip();
    const bool found = text_.substr(at_, 3) == "::=";
    at_ = back;
    return found;
  }

  Named& named(const std::string& name, size_t place) {
    const auto [at, is_new] = rules_.try_emplace(name);
    if (is_new) at->second = {builder_.declare(name), false, place};
    return at->second;
  }

  Result<void> parse_rule() {
    if (!is_name_start(peek())) return bad("the name of a rule");
    const size_t begin = at_;
    const std::string name = take_name();
    Named& rule = named(name, begin);
    if (rule.defined) {
      at_ = begin;
      return bad("a rule that is not defined yet: \"" + name + "\" is");
    }
    rule.defined = true;
    skip();
    if (text_.substr(at_, 3) != "::=") return bad("::=");
    at_ += 3;
    TRY_ASSIGN(const NodeId body, parse_alternatives(0));
    builder_.define(rule.id, body);
    return {};
  }

  Result<NodeId> parse_alternatives(int depth) {
    std::vector<NodeId> alternatives;
    do {
      std::vector<NodeId> parts;
      for (skip(); !at_end() && peek() != '|' && peek() != ')'; skip()) {
        if (is_name_start(peek()) && begins_rule()) break;
        TRY_ASSIGN(const NodeId part, parse_item(depth));
        parts.push_back(part);
      }
      alternatives.push_back(builder_.sequence(parts));
    } while (take('|'));
    return builder_.choice(alternatives);
  }

  Result<NodeId> parse_item(int depth) {
    TRY_ASSIGN(NodeId item, parse_primary(depth));
    while (true) {
      if (take('*')) {
        item = builder_.repeat(item, 0);
      } else if (take('+')) {
        item = builder_.repeat(item, 1);
      } else if (take('?')) {
        item = builder_.optional(item);
      } else if (take('{')) {
        TRY_ASSIGN(item, parse_bounds(item));
      } else {
        return item;
      }
    }
  }

  Result<NodeId> parse_bounds(NodeId item) {
    skip();
    uint32_t min = 0;
    if (peek() != ',') {
      TRY_ASSIGN(min, parse_count());
    }
    uint32_t max = min;
    skip();
    if (take(',')) {
      skip();
      max = kUnbounded;
      if (peek() != '}') {
        TRY_ASSIGN(max, parse_count());
      }
    }
    skip();
    if (!take('}')) return bad("}");
    if (max < min) return bad("bounds in order before this");
    return builder_.repeat(item, min, max);
  }

  Result<NodeId> parse_primary(int depth) {
    const char c = peek();
    if (c == '"' || c == '\'') return parse_literal(c);
    if (is_name_start(c)) {
      const size_t begin = at_;
      const std::string name = take_name();
      return builder_.rule(named(name, begin).id);
    }
    if (take('[')) return parse_class();
    if (take('.')) {
      CodePointSet all;
      all.add(0, CodePointSet::kMax);
      return all.emit(builder_);
    }
    if (take('(')) {
      if (depth >= kMaxGroupDepth)
        return bad("at most " + std::to_string(kMaxGroupDepth) + " groups in each other");
      TRY_ASSIGN(const NodeId body, parse_alternatives(depth + 1));
      if (!take(')')) return bad(")");
      return body;
    }
    return bad("a text, a class, a group or a name");
  }

  Result<NodeId> parse_literal(char quote) {
    ++at_;
    std::string bytes;
    while (!take(quote)) {
      if (at_end()) return bad("a closing quote");
      TRY_ASSIGN(const char32_t c, parse_character());
      append_utf8(bytes, c);
    }
    return builder_.literal(bytes);
  }

  // Behind the opening bracket.
  Result<NodeId> parse_class() {
    const bool is_negated = take('^');
    CodePointSet set;
    while (!take(']')) {
      if (at_end()) return bad("]");
      TRY_ASSIGN(const char32_t first, parse_character());
      char32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        TRY_ASSIGN(last, parse_character());
      }
      if (last < first) return bad("a range from a lower to a higher character before this");
      set.add(first, last);
    }
    return (is_negated ? set.complement() : set).emit(builder_);
  }

  Result<char32_t> parse_character() {
    if (at_end()) return bad("a character");
    if (!take('\\')) return take_code_point();
    if (const auto meant = take_letter_escape()) return *meant;
    const char letter = peek();
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits > 0) return parse_hex(digits);
    if (at_end() || is_name_char(letter) || static_cast<uint8_t>(letter) >= 0x80)
      if (letter != '-' && letter != '.') return bad("an escape");
    ++at_;
    return static_cast<char32_t>(letter);
  }

  Result<char32_t> parse_hex(size_t digits) {
    ++at_;
    uint64_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      TRY_ASSIGN(const uint32_t digit, take_hex_digit());
      value = value * 16 + digit;
    }
    if (value > CodePointSet::kMax || (value >= 0xD800 && value <= 0xDFFF))
      return bad("a code point before this");
    return static_cast<char32_t>(value);
  }

  GrammarBuilder builder_;
  std::map<std::string, Named> rules_;
};

}  // namespace

Result<Grammar> from_ebnf(std::string_view text) {
  return EbnfParser(text).parse();
}

}  // namespace stoker::grammar
