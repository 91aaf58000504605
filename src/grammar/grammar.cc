#include "grammar/grammar.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/try.h"
#include "base/utf8.h"
#include "grammar/regular.h"

namespace stoker::grammar {
namespace {

constexpr char32_t kMaxCodePoint = 0x10FFFF;

// One run of code points whose UTF-8 has the same length, and is a product of byte ranges.
struct ByteRun {
  std::array<std::pair<uint8_t, uint8_t>, 4> ranges{};
  size_t length = 0;
};

std::string utf8_of(char32_t code_point) {
  std::string bytes;
  append_utf8(bytes, code_point);
  return bytes;
}

// Cuts first .. last (same encoded length) where a leading byte changes, so that each piece is a
// product of ranges.
void split_run(char32_t first, char32_t last, std::vector<ByteRun>& out) {
  const size_t length = utf8_of(first).size();
  for (size_t tail = 1; tail < length; ++tail) {
    const char32_t mask = (char32_t{1} << (6 * tail)) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      split_run(first, first | mask, out);
      return split_run((first | mask) + 1, last, out);
    }
    if ((last & mask) != mask) {
      split_run(first, (last & ~mask) - 1, out);
      return split_run(last & ~mask, last, out);
    }
  }
  ByteRun run;
  run.length = length;
  const std::string low = utf8_of(first);
  const std::string high = utf8_of(last);
  for (size_t i = 0; i < length; ++i)
    run.ranges[i] = {static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])};
  out.push_back(run);
}

std::vector<ByteRun> byte_runs(char32_t first, char32_t last) {
  // Ends of what has one, two, three bytes, with the surrogates left out.
  constexpr std::array<std::pair<char32_t, char32_t>, 5> kPieces = {
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMaxCodePoint}}};
  std::vector<ByteRun> runs;
  for (const auto& [low, high] : kPieces) {
    const char32_t from = std::max(first, low);
    const char32_t to = std::min(last, high);
    if (from <= to) split_run(from, to, runs);
  }
  return runs;
}

}  // namespace

ByteSet byte_range(uint8_t first, uint8_t last) {
  ByteSet set;
  for (size_t byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

GrammarBuilder::GrammarBuilder() : data_(std::make_shared<Grammar::Data>()) {}

NodeId GrammarBuilder::add(const Node& node) {
  if (data_->nodes.size() >= kMaxNodes) {
    too_large_ = true;
    return 0;
  }
  data_->nodes.push_back(node);
  return static_cast<NodeId>(data_->nodes.size() - 1);
}

NodeId GrammarBuilder::literal(std::string_view bytes) {
  if (too_large_) return 0;
  data_->literals.emplace_back(bytes);
  return add({NodeKind::kLiteral, static_cast<uint32_t>(data_->literals.size() - 1), 0, 0});
}

NodeId GrammarBuilder::bytes(const ByteSet& set) {
  if (too_large_) return 0;
  data_->sets.push_back(set);
  return add({NodeKind::kBytes, static_cast<uint32_t>(data_->sets.size() - 1), 0, 0});
}

NodeId GrammarBuilder::add_list(NodeKind kind, const std::vector<NodeId>& parts) {
  if (parts.size() == 1) return parts[0];
  if (too_large_ || data_->children.size() + parts.size() > kMaxNodes) {
    too_large_ = true;
    return 0;
  }
  const auto begin = static_cast<uint32_t>(data_->children.size());
  data_->children.insert(data_->children.end(), parts.begin(), parts.end());
  return add({kind, begin, static_cast<uint32_t>(parts.size()), 0});
}

NodeId GrammarBuilder::sequence(const std::vector<NodeId>& parts) {
  return add_list(NodeKind::kSequence, parts);
}

NodeId GrammarBuilder::choice(const std::vector<NodeId>& alternatives) {
  return add_list(NodeKind::kChoice, alternatives);
}

NodeId GrammarBuilder::repeat(NodeId part, uint32_t min, uint32_t max) {
  if (min == 1 && max == 1) return part;
  return add({NodeKind::kRepeat, part, min, max});
}

NodeId GrammarBuilder::regular(Regular automaton) {
  num_regular_states_ += automaton.states.size();
  if (too_large_ || num_regular_states_ > kMaxRegularStates) {
    too_large_ = true;
    return 0;
  }
  data_->regulars.push_back(std::make_shared<const Regular>(std::move(automaton)));
  return add({NodeKind::kRegular, static_cast<uint32_t>(data_->regulars.size() - 1), 0, 0});
}

RuleId GrammarBuilder::declare(std::string name, bool shared) {
  if (data_->rules.size() >= kMaxNodes) {
    too_large_ = true;
    return 0;
  }
  data_->rules.push_back({std::move(name), 0, shared});
  return static_cast<RuleId>(data_->rules.size() - 1);
}

void GrammarBuilder::define(RuleId rule, NodeId body) {
  data_->rules[rule].body = body;
}

NodeId GrammarBuilder::rule(RuleId rule) {
  return add({NodeKind::kRule, rule, 0, 0});
}

NodeId GrammarBuilder::shared_rule(std::string name, NodeId body) {
  const RuleId made = declare(std::move(name), true);
  define(made, body);
  return rule(made);
}

NodeId GrammarBuilder::multibyte() {
  if (!multibyte_) {
    multibyte_ = shared_rule("multibyte", code_points(0x80, kMaxCodePoint));
    if (!too_large_) data_->multibyte = data_->nodes[*multibyte_].a;
  }
  return *multibyte_;
}

NodeId GrammarBuilder::code_points(char32_t first, char32_t last) {
  std::vector<NodeId> alternatives;
  for (const ByteRun& run : byte_runs(first, last)) {
    std::vector<NodeId> parts;
    for (size_t i = 0; i < run.length; ++i)
      parts.push_back(bytes(byte_range(run.ranges[i].first, run.ranges[i].second)));
    alternatives.push_back(sequence(parts));
  }
  return choice(alternatives);
}

NodeId GrammarBuilder::text_without(std::string_view stop) {
  return regular(regular_text_without(stop));
}

NodeId GrammarBuilder::include(const Grammar& other) {
  const Grammar::Data& from = *other.data_;
  if (too_large_ || data_->nodes.size() + from.nodes.size() > kMaxNodes ||
      data_->children.size() + from.children.size() > kMaxNodes) {
    too_large_ = true;
    return 0;
  }
  for (const auto& automaton : from.regulars) num_regular_states_ += automaton->states.size();
  const auto nodes = static_cast<uint32_t>(data_->nodes.size());
  const auto lists = static_cast<uint32_t>(data_->children.size());
  const auto literals = static_cast<uint32_t>(data_->literals.size());
  const auto sets = static_cast<uint32_t>(data_->sets.size());
  const auto regulars = static_cast<uint32_t>(data_->regulars.size());
  const auto rules = static_cast<uint32_t>(data_->rules.size());
  for (Node node : from.nodes) {
    switch (node.kind) {
      case NodeKind::kLiteral:
        node.a += literals;
        break;
      case NodeKind::kBytes:
        node.a += sets;
        break;
      case NodeKind::kSequence:
      case NodeKind::kChoice:
        node.a += lists;
        break;
      case NodeKind::kRepeat:
        node.a += nodes;
        break;
      case NodeKind::kRule:
        node.a += rules;
        break;
      case NodeKind::kRegular:
        node.a += regulars;
        break;
    }
    data_->nodes.push_back(node);
  }
  for (const NodeId child : from.children) data_->children.push_back(child + nodes);
  for (Rule rule : from.rules) {
    rule.body += nodes;
    data_->rules.push_back(std::move(rule));
  }
  data_->literals.insert(data_->literals.end(), from.literals.begin(), from.literals.end());
  data_->sets.insert(data_->sets.end(), from.sets.begin(), from.sets.end());
  data_->regulars.insert(data_->regulars.end(), from.regulars.begin(), from.regulars.end());
  if (!data_->multibyte && from.multibyte) data_->multibyte = *from.multibyte + rules;
  return rule(from.root + rules);
}

Result<Grammar> GrammarBuilder::finish(NodeId root) && {
  if (too_large_) {
    return Error{ErrorCode::kInvalidArgument,
                 "grammar too large: more than " + std::to_string(kMaxNodes) + " expressions",
                 {}};
  }
  data_->root = declare("root");
  define(data_->root, root);
  return Grammar(std::shared_ptr<const Grammar::Data>(std::move(data_)));
}

Result<Grammar> either(const Grammar& a, const Grammar& b) {
  GrammarBuilder builder;
  const NodeId first = builder.include(a);
  const NodeId second = builder.include(b);
  const NodeId root = builder.choice({first, second});
  return std::move(builder).finish(root);
}

Result<Grammar> after_line_feeds(const Grammar& grammar, uint32_t max) {
  GrammarBuilder builder;
  const NodeId body = builder.include(grammar);
  const NodeId feeds = builder.repeat(builder.literal("\n"), 0, max);
  const NodeId root = builder.sequence({feeds, body});
  return std::move(builder).finish(root);
}

}  // namespace stoker::grammar
