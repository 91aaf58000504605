#include "grammar/regex.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/try.h"
#include "base/utf8.h"
#include "grammar/code_point_set.h"
#include "grammar/scanner.h"

namespace stoker::grammar {
namespace {

constexpr int kMaxGroups = 100;  // in each other

// One top-level alternative.
struct Branch {
  NodeId body = 0;
  bool from_begin = false;  // ^
  bool to_end = false;      // $
};

class RegexParser : private Scanner {
 public:
  RegexParser(GrammarBuilder& builder, std::string_view text)
      : Scanner(text, "expression"), builder_(builder) {}

  Result<NodeId> parse(RegexMatch match) {
    if (!is_valid_utf8(text_)) return bad("UTF-8");
    std::vector<NodeId> branches;
    do {
      TRY_ASSIGN(const Branch branch, parse_branch());
      branches.push_back(match == RegexMatch::kWhole ? branch.body : searched(branch));
    } while (take('|'));
    if (!at_end()) return bad("the end or |");
    return builder_.choice(branches);
  }

 private:
  Error unsupported(const std::string& what) const {
    return {ErrorCode::kUnsupported,
            "expression: " + what + " at byte " + std::to_string(at_) + " is not supported",
            {}};
  }

  NodeId searched(const Branch& branch) {
    CodePointSet all;
    all.add(0, CodePointSet::kMax);
    const NodeId anything = builder_.repeat(all.emit(builder_), 0);
    std::vector<NodeId> parts;
    if (!branch.from_begin) parts.push_back(anything);
    parts.push_back(branch.body);
    if (!branch.to_end) parts.push_back(anything);
    return builder_.sequence(parts);
  }

  // Anchors stand at the ends of a top-level alternative only: everywhere else they would have to
  // be weighed against what surrounds them.
  Result<Branch> parse_branch() {
    Branch branch;
    while (take('^')) branch.from_begin = true;
    std::vector<NodeId> parts;
    while (!at_end() && peek() != '|') {
      if (take('$')) {
        branch.to_end = true;
        if (!at_end() && peek() != '|' && peek() != '$')
          return unsupported("an anchor that is followed by more");
        continue;
      }
      TRY_ASSIGN(const NodeId part, parse_quantified(0));
      parts.push_back(part);
    }
    branch.body = builder_.sequence(parts);
    return branch;
  }

  Result<NodeId> parse_alternatives(int depth) {
    std::vector<NodeId> alternatives;
    do {
      std::vector<NodeId> parts;
      while (!at_end() && peek() != '|' && peek() != ')') {
        TRY_ASSIGN(const NodeId part, parse_quantified(depth));
        parts.push_back(part);
      }
      alternatives.push_back(builder_.sequence(parts));
    } while (take('|'));
    return builder_.choice(alternatives);
  }

  Result<NodeId> parse_quantified(int depth) {
    TRY_ASSIGN(const NodeId atom, parse_atom(depth));
    uint32_t min = 1;
    uint32_t max = 1;
    if (take('*')) {
      min = 0;
      max = kUnbounded;
    } else if (take('+')) {
      max = kUnbounded;
    } else if (take('?')) {
      min = 0;
    } else if (peek() == '{') {
      TRY_ASSIGN(std::tie(min, max), parse_bounds());
    } else {
      return atom;
    }
    take('?');  // as few as possible: the same texts
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
      return unsupported("a quantifier behind a quantifier");
    return builder_.repeat(atom, min, max);
  }

  Result<std::pair<uint32_t, uint32_t>> parse_bounds() {
    take('{');
    TRY_ASSIGN(const uint32_t min, parse_count());
    uint32_t max = min;
    if (take(',')) {
      max = kUnbounded;
      if (peek() != '}') {
        TRY_ASSIGN(max, parse_count());
      }
    }
    if (!take('}')) return bad("}");
    if (max < min) return bad("bounds in order before this");
    return std::pair{min, max};
  }

  Result<NodeId> parse_atom(int depth) {
    switch (peek()) {
      case '(':
        return parse_group(depth);
      case '[': {
        ++at_;
        TRY_ASSIGN(const CodePointSet set, parse_class());
        return set.emit(builder_);
      }
      case '.': {
        ++at_;
        CodePointSet line_ends;
        line_ends.add('\n', '\n');
        line_ends.add('\r', '\r');
        line_ends.add(0x2028, 0x2029);
        return line_ends.complement().emit(builder_);
      }
      case '\\': {
        TRY_ASSIGN(const CodePointSet set, parse_escape(false));
        return set.emit(builder_);
      }
      case '^':
      case '$':
        return unsupported("an anchor within");
      case '*':
      case '+':
      case '?':
      case '{':
        return bad("something to repeat");
      case ')':
        return bad("a group before its end");
      default:
        return builder_.literal(take_character());
    }
  }

  std::string_view take_character() {
    const std::string_view bytes = text_.substr(at_, decode_utf8(text_, at_).length);
    at_ += bytes.size();
    return bytes;
  }

  Result<NodeId> parse_group(int depth) {
    if (depth >= kMaxGroups)
      return unsupported("a group within " + std::to_string(kMaxGroups) + " others");
    take('(');
    if (take('?')) {
      if (take('<')) {
        if (peek() == '=' || peek() == '!') return unsupported("look-behind");
        while (!at_end() && peek() != '>') ++at_;
        if (!take('>')) return bad(">");
      } else if (peek() == '=' || peek() == '!') {
        return unsupported("look-ahead");
      } else if (!take(':')) {
        return unsupported("this kind of group");
      }
    }
    TRY_ASSIGN(const NodeId body, parse_alternatives(depth + 1));
    if (!take(')')) return bad(")");
    return body;
  }

  // Behind the opening bracket.
  Result<CodePointSet> parse_class() {
    const bool is_negated = take('^');
    CodePointSet set;
    while (!take(']')) {
      if (at_end()) return bad("]");
      TRY_ASSIGN(const CodePointSet first, parse_class_atom());
      if (peek() != '-' || at_ + 1 >= text_.size() || text_[at_ + 1] == ']') {
        set.add(first);
        continue;
      }
      const auto low = first.single();
      ++at_;
      TRY_ASSIGN(const CodePointSet second, parse_class_atom());
      const auto high = second.single();
      if (!low || !high || *low > *high) return bad("a range from a lower to a higher character");
      set.add(*low, *high);
    }
    return is_negated ? set.complement() : set;
  }

  Result<CodePointSet> parse_class_atom() {
    if (at_end()) return bad("]");
    if (peek() == '\\') return parse_escape(true);
    CodePointSet set;
    const char32_t c = take_code_point();
    set.add(c, c);
    return set;
  }

  Result<CodePointSet> parse_escape(bool in_class) {
    take('\\');
    if (at_end()) return bad("an escape");
    const char letter = peek();
    switch (letter) {
      case 'd':
      case 'w':
      case 's':
        ++at_;
        return CodePointSet::of_class(letter);
      case 'D':
      case 'W':
      case 'S':
        ++at_;
        return CodePointSet::of_class(static_cast<char>(letter - 'A' + 'a')).complement();
      case 'x':
      case 'u':
        return parse_hex_escape();
      case 'b':
        if (!in_class) return unsupported("a word border");
        break;
      case 'B':
        return unsupported("a word border");
      case 'p':
      case 'P':
        return unsupported("a class of Unicode");
      case 'k':
        return unsupported("a back reference");
      default:
        break;
    }
    if (letter >= '1' && letter <= '9') return unsupported("a back reference");
    return parse_simple_escape();
  }

  Result<CodePointSet> parse_simple_escape() {
    CodePointSet set;
    if (const auto meant = take_letter_escape()) {
      if (*meant == 0 && peek() >= '0' && peek() <= '9') return unsupported("an octal escape");
      set.add(*meant, *meant);
      return set;
    }
    const char32_t c = decode_utf8(text_, at_).value;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return unsupported("this escape");
    take_code_point();
    set.add(c, c);
    return set;
  }

  Result<CodePointSet> parse_hex_escape() {
    const bool is_byte = text_[at_++] == 'x';
    const bool is_braced = !is_byte && take('{');
    char32_t value = 0;
    size_t digits = 0;
    const size_t wanted = is_byte ? 2 : 4;
    for (; is_braced ? digits < 6 && peek() != '}' : digits < wanted; ++digits) {
      TRY_ASSIGN(const uint32_t digit, take_hex_digit());
      value = value * 16 + digit;
    }
    if (is_braced && (digits == 0 || !take('}'))) return bad("1 to 6 hexadecimal digits and }");
    if (value > CodePointSet::kMax) return bad("a code point before this");
    if (!is_byte && !is_braced && value >= 0xD800 && value <= 0xDFFF)
      return parse_low_surrogate(value);
    CodePointSet set;
    set.add(value, value);
    return set;
  }

  // \uD83D\uDE00 is one character.
  Result<CodePointSet> parse_low_surrogate(char32_t high) {
    if (high >= 0xDC00 || !take('\\') || peek() != 'u' || at_ + 5 > text_.size())
      return unsupported("half a surrogate pair");
    ++at_;
    char32_t low = 0;
    for (int i = 0; i < 4; ++i) {
      TRY_ASSIGN(const uint32_t digit, take_hex_digit());
      low = low * 16 + digit;
    }
    if (low < 0xDC00 || low > 0xDFFF) return unsupported("half a surrogate pair");
    const char32_t value = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    CodePointSet set;
    set.add(value, value);
    return set;
  }

  GrammarBuilder& builder_;
};

}  // namespace

Result<NodeId> add_regex(GrammarBuilder& builder, std::string_view expression, RegexMatch match) {
  return RegexParser(builder, expression).parse(match);
}

Result<Grammar> from_regex(std::string_view expression) {
  GrammarBuilder builder;
  TRY_ASSIGN(const NodeId root, add_regex(builder, expression, RegexMatch::kWhole));
  return std::move(builder).finish(root);
}

Result<Grammar> from_choice(const std::vector<std::string>& texts) {
  if (texts.empty())
    return Error{ErrorCode::kInvalidArgument, "choice: expected at least one text", {}};
  GrammarBuilder builder;
  std::vector<NodeId> alternatives;
  alternatives.reserve(texts.size());
  for (const std::string& text : texts) alternatives.push_back(builder.literal(text));
  const NodeId root = builder.choice(alternatives);
  return std::move(builder).finish(root);
}

}  // namespace stoker::grammar
