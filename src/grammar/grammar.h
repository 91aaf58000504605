// A grammar as a value: expressions over named rules, on bytes. Where it comes from (a schema, an
// expression, EBNF, tools) is the business of the files beside this one; what it allows next is
// program.h's.
//
// Bytes, not characters: tokens may end in the middle of a UTF-8 sequence, and a character is a
// sequence of byte sets like any other.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/result.h"

namespace stoker::grammar {

using ByteSet = std::bitset<256>;
using NodeId = uint32_t;
using RuleId = uint32_t;

inline constexpr uint32_t kUnbounded = UINT32_MAX;

/// The bytes first .. last.
ByteSet byte_range(uint8_t first, uint8_t last);

/// A finite automaton over bytes, for what set operations make: patterns together with lengths, all
/// names but some. State 0 is the start. A plain value.
struct Regular {
  struct Edge {
    uint8_t first = 0;  ///< bytes first .. last
    uint8_t last = 0;
    uint32_t to = 0;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges;  ///< disjoint
  };
  std::vector<State> states;
};

enum class NodeKind : uint8_t {
  kLiteral,   ///< the bytes literal(a)
  kBytes,     ///< one byte of set(a)
  kSequence,  ///< children(node), one after the other; none: the empty string
  kChoice,    ///< one of children(node); none: nothing at all
  kRepeat,    ///< node a, b to c times; c may be kUnbounded
  kRule,      ///< what rule a is
  kRegular,   ///< a string of regular(a)
};

struct Node {
  NodeKind kind = NodeKind::kSequence;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
};

struct Rule {
  std::string name;
  NodeId body = 0;
  bool shared = false;  ///< never expanded in place: many refer to it, or it is long
};

/// Immutable; copies share. Safe from any thread.
class Grammar {
 public:
  const Node& node(NodeId id) const { return data_->nodes[id]; }
  std::span<const NodeId> children(const Node& node) const {
    return std::span(data_->children).subspan(node.a, node.b);
  }
  const std::string& literal(uint32_t index) const { return data_->literals[index]; }
  const ByteSet& set(uint32_t index) const { return data_->sets[index]; }
  const Regular& regular(uint32_t index) const { return *data_->regulars[index]; }
  const std::vector<Rule>& rules() const { return data_->rules; }
  size_t num_nodes() const { return data_->nodes.size(); }
  RuleId root() const { return data_->root; }
  /// The rule of any UTF-8 character of two to four bytes, if the grammar has it.
  std::optional<RuleId> multibyte() const { return data_->multibyte; }

 private:
  friend class GrammarBuilder;
  struct Data {
    std::vector<Node> nodes;
    std::vector<NodeId> children;
    std::vector<std::string> literals;
    std::vector<ByteSet> sets;
    std::vector<std::shared_ptr<const Regular>> regulars;
    std::vector<Rule> rules;
    RuleId root = 0;
    std::optional<RuleId> multibyte;
  };
  explicit Grammar(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

/// Makes a grammar from the leaves up. Beyond kMaxNodes expressions it stops keeping them, and
/// finish() fails; so callers bound what a single call adds, and need not look after each one.
class GrammarBuilder {
 public:
  static constexpr size_t kMaxNodes = 1'000'000;
  static constexpr size_t kMaxRegularStates = 300'000;  ///< of all automata, in the same way

  GrammarBuilder();

  NodeId literal(std::string_view bytes);
  NodeId bytes(const ByteSet& set);
  NodeId sequence(const std::vector<NodeId>& parts);
  NodeId choice(const std::vector<NodeId>& alternatives);
  NodeId repeat(NodeId part, uint32_t min, uint32_t max = kUnbounded);
  NodeId optional(NodeId part) { return repeat(part, 0, 1); }
  NodeId regular(Regular automaton);
  NodeId empty() { return sequence({}); }

  /// A rule without a body yet, so that bodies may refer to it.
  RuleId declare(std::string name, bool shared = false);
  void define(RuleId rule, NodeId body);
  NodeId rule(RuleId rule);
  /// A shared rule of that body, referred to.
  NodeId shared_rule(std::string name, NodeId body);

  /// Any UTF-8 character of two to four bytes.
  NodeId multibyte();
  /// The UTF-8 characters of the code points first .. last, without surrogates.
  NodeId code_points(char32_t first, char32_t last);
  /// Any UTF-8 text that does not contain `stop`, which is not empty.
  NodeId text_without(std::string_view stop);
  /// All of another grammar, as a reference to its root.
  NodeId include(const Grammar& other);

  bool too_large() const { return too_large_; }
  /// The grammar of `root`; every rule must have a body. Error: kInvalidArgument, too large.
  Result<Grammar> finish(NodeId root) &&;

 private:
  NodeId add(const Node& node);
  NodeId add_list(NodeKind kind, const std::vector<NodeId>& parts);

  std::shared_ptr<Grammar::Data> data_;
  std::optional<NodeId> multibyte_;
  size_t num_regular_states_ = 0;
  bool too_large_ = false;
};

/// What one or the other allows. Error: kInvalidArgument, too large.
Result<Grammar> either(const Grammar& a, const Grammar& b);

/// The same behind 0 to `max` line feeds. Error: kInvalidArgument, too large.
Result<Grammar> after_line_feeds(const Grammar& grammar, uint32_t max = 4);

}  // namespace stoker::grammar
