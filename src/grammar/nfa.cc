#include "grammar/nfa.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/try.h"

namespace stoker::grammar {
namespace {

// Rules of at most so many expressions, all that they refer to included, are expanded in place:
// a call hides from the masks what follows it.
constexpr size_t kMaxInlineNodes = 64;
constexpr size_t kMaxExpressionDepth =
    2000;  // of expressions in expressions: bounds our own recursion

// How many expressions a rule is with all that it refers to; those that recurse count as too many.
class InlineSizes {
 public:
  explicit InlineSizes(const Grammar& grammar)
      : grammar_(grammar), sizes_(grammar.rules().size(), kUnknown) {}

  bool is_small(RuleId rule) { return size_of_rule(rule, 0) <= kMaxInlineNodes; }

 private:
  static constexpr size_t kUnknown = SIZE_MAX;
  static constexpr size_t kTooMany = kMaxInlineNodes + 1;

  size_t size_of_rule(RuleId rule, size_t depth) {
    if (grammar_.rules()[rule].shared) return 1;
    if (sizes_[rule] != kUnknown) return sizes_[rule];
    sizes_[rule] = kTooMany;  // found while it is being computed: it recurses
    const size_t size = size_of(grammar_.rules()[rule].body, depth + 1);
    sizes_[rule] = size;
    return size;
  }

  size_t size_of(NodeId id, size_t depth) {
    if (depth > kMaxInlineNodes) return kTooMany;
    const Node& node = grammar_.node(id);
    switch (node.kind) {
      case NodeKind::kLiteral:
        return 1 + grammar_.literal(node.a).size();
      case NodeKind::kBytes:
        return 1;
      case NodeKind::kRule:
        return size_of_rule(node.a, depth + 1);
      case NodeKind::kRegular:
        return 1 + grammar_.regular(node.a).states.size();
      case NodeKind::kRepeat: {
        const size_t times = node.c == kUnbounded ? size_t{node.b} + 1 : node.c;
        if (times > kMaxInlineNodes) return kTooMany;
        return std::min(kTooMany, 1 + times * size_of(node.a, depth + 1));
      }
      case NodeKind::kSequence:
      case NodeKind::kChoice:
        break;
    }
    size_t sum = 1;
    for (const NodeId child : grammar_.children(node)) {
      sum += size_of(child, depth + 1);
      if (sum > kMaxInlineNodes) return kTooMany;
    }
    return sum;
  }

  const Grammar& grammar_;
  std::vector<size_t> sizes_;
};

class Builder {
 public:
  Builder(const Grammar& grammar, const CompileLimits& limits)
      : grammar_(grammar),
        limits_(limits),
        sizes_(grammar),
        starts_(grammar.rules().size(), kNone) {}

  Result<Nfa> build() {
    nfa_.start = start_of(grammar_.root());
    while (!waiting_.empty() && error_ == nullptr) {
      const RuleId rule = waiting_.back();
      waiting_.pop_back();
      const uint32_t end = add_state();
      nfa_.states[end].ends_rule = true;
      end_ = end;
      emit(grammar_.rules()[rule].body, starts_[rule], end, 0);
    }
    if (error_ != nullptr) {
      return Error{ErrorCode::kInvalidArgument, "grammar too large: " + std::string(error_), {}};
    }
    if (const auto rule = grammar_.multibyte()) nfa_.multibyte_start = starts_[*rule];
    return std::move(nfa_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t add_state() {
    if (nfa_.states.size() >= limits_.max_nfa_states) {
      error_ = "its expressions expand to too many states";
      return 0;
    }
    nfa_.states.emplace_back();
    return static_cast<uint32_t>(nfa_.states.size() - 1);
  }

  uint32_t start_of(RuleId rule) {
    if (starts_[rule] == kNone) {
      starts_[rule] = add_state();
      waiting_.push_back(rule);
    }
    return starts_[rule];
  }

  void add_empty(uint32_t from, uint32_t to) { nfa_.states[from].empty.push_back(to); }

  // What `id` allows leads from one state to the other.
  void emit(NodeId id, uint32_t from, uint32_t to, size_t depth) {
    if (error_ != nullptr) return;
    if (depth > kMaxExpressionDepth) {
      error_ = "expressions are nested too deep";
      return;
    }
    const Node& node = grammar_.node(id);
    switch (node.kind) {
      case NodeKind::kLiteral:
        return emit_literal(grammar_.literal(node.a), from, to);
      case NodeKind::kBytes:
        nfa_.states[from].edges.push_back({grammar_.set(node.a), to});
        return;
      case NodeKind::kSequence:
        return emit_sequence(node, from, to, depth);
      case NodeKind::kChoice:
        for (const NodeId child : grammar_.children(node)) emit(child, from, to, depth + 1);
        return;
      case NodeKind::kRepeat:
        return emit_repeat(node, from, to, depth);
      case NodeKind::kRule:
        return emit_rule(node.a, from, to, depth);
      case NodeKind::kRegular:
        return emit_regular(grammar_.regular(node.a), from, to);
    }
  }

  void emit_literal(const std::string& bytes, uint32_t from, uint32_t to) {
    if (bytes.empty()) return add_empty(from, to);
    for (size_t i = 0; i < bytes.size() && error_ == nullptr; ++i) {
      const uint32_t next = i + 1 == bytes.size() ? to : add_state();
      const auto byte = static_cast<uint8_t>(bytes[i]);
      nfa_.states[from].edges.push_back({byte_range(byte, byte), next});
      from = next;
    }
  }

  void emit_sequence(const Node& node, uint32_t from, uint32_t to, size_t depth) {
    const auto parts = grammar_.children(node);
    if (parts.empty()) return add_empty(from, to);
    for (size_t i = 0; i < parts.size(); ++i) {
      const uint32_t next = i + 1 == parts.size() ? to : add_state();
      emit(parts[i], from, next, depth + 1);
      from = next;
    }
  }

  void emit_repeat(const Node& node, uint32_t from, uint32_t to, size_t depth) {
    const uint32_t copies = node.c == kUnbounded ? node.b : node.c;
    for (uint32_t i = 0; i < copies && error_ == nullptr; ++i) {
      if (i >= node.b) add_empty(from, to);
      // The last one leads where all lead, so that a rule at its end is a jump.
      const bool is_last = node.c != kUnbounded && i + 1 == copies;
      const uint32_t next = is_last ? to : add_state();
      emit(node.a, from, next, depth + 1);
      if (is_last) return;
      from = next;
    }
    if (node.c == kUnbounded) {
      // A state of its own, that nothing else leads into or out of the loop by another way.
      const uint32_t loop = add_state();
      add_empty(from, loop);
      emit(node.a, loop, loop, depth + 1);
      from = loop;
    }
    add_empty(from, to);
  }

  void emit_rule(RuleId rule, uint32_t from, uint32_t to, size_t depth) {
    if (to == end_) return add_empty(from, start_of(rule));
    if (!grammar_.rules()[rule].shared && sizes_.is_small(rule))
      return emit(grammar_.rules()[rule].body, from, to, depth + 1);
    const uint32_t start = start_of(rule);
    nfa_.states[from].calls.push_back({start, to});
  }

  void emit_regular(const Regular& automaton, uint32_t from, uint32_t to) {
    std::vector<uint32_t> number;
    for (size_t s = 0; s < automaton.states.size() && error_ == nullptr; ++s)
      number.push_back(add_state());
    if (error_ != nullptr) return;
    add_empty(from, number[0]);
    for (size_t s = 0; s < automaton.states.size(); ++s) {
      for (const Regular::Edge& edge : automaton.states[s].edges) {
        nfa_.states[number[s]].edges.push_back(
            {byte_range(edge.first, edge.last), number[edge.to]});
      }
      if (automaton.states[s].accepts) add_empty(number[s], to);
    }
  }

  const Grammar& grammar_;
  const CompileLimits& limits_;
  InlineSizes sizes_;
  Nfa nfa_;
  std::vector<uint32_t> starts_;
  std::vector<RuleId> waiting_;
  uint32_t end_ = kNone;  // of the rule that is being emitted
  const char* error_ = nullptr;
};

// Marks the states from which the end of the rule can be reached, over edges of any kind or (for
// `nullable`) over those that take no byte. A call is one where its rule has the mark.
class Marking {
 public:
  Marking(Nfa& nfa, bool Nfa::State::*mark, bool over_bytes) : nfa_(nfa), mark_(mark) {
    sources_.resize(nfa.states.size());
    calls_on_.resize(nfa.states.size());
    for (uint32_t s = 0; s < nfa.states.size(); ++s) {
      for (const uint32_t to : nfa.states[s].empty) sources_[to].push_back(s);
      for (const Nfa::Edge& edge : nfa.states[s].edges)
        if (over_bytes && edge.bytes.any()) sources_[edge.to].push_back(s);
      for (const Nfa::Call& call : nfa.states[s].calls) {
        calls_on_[call.to].push_back({s, call.start});
        calls_on_[call.start].push_back({s, call.to});
      }
    }
  }

  void run() {
    for (uint32_t s = 0; s < nfa_.states.size(); ++s)
      if (nfa_.states[s].ends_rule) set(s);
    while (!work_.empty()) {
      const uint32_t s = work_.back();
      work_.pop_back();
      for (const uint32_t source : sources_[s]) set(source);
      for (const auto& [source, other] : calls_on_[s])
        if (nfa_.states[other].*mark_) set(source);
    }
  }

 private:
  void set(uint32_t s) {
    if (nfa_.states[s].*mark_) return;
    nfa_.states[s].*mark_ = true;
    work_.push_back(s);
  }

  Nfa& nfa_;
  bool Nfa::State::*mark_;
  std::vector<std::vector<uint32_t>> sources_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> calls_on_;  // source, and what it needs
  std::vector<uint32_t> work_;
};

}  // namespace

Result<Nfa> build_nfa(const Grammar& grammar, const CompileLimits& limits) {
  TRY_ASSIGN(Nfa nfa, Builder(grammar, limits).build());
  Marking(nfa, &Nfa::State::useful, true).run();
  Marking(nfa, &Nfa::State::nullable, false).run();
  if (!nfa.states[nfa.start].useful) return Error{ErrorCode::kInvalidArgument, kNothingAllowed, {}};
  return nfa;
}

}  // namespace stoker::grammar
