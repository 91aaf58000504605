// For tests: a slow reader of grammars that shares nothing with the compiled form. It keeps the set
// of all readings of a text, each a list of what is still to come, and takes one byte at a time.
// Only for grammars in which every rule takes a byte before it refers to another, and can be
// completed.
#pragma once

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/regular.h"

namespace stoker::grammar::testing {

class Oracle {
 public:
  explicit Oracle(const Grammar& grammar) : grammar_(grammar) {
    expand({{grammar.rules()[grammar.root()].body, 0, 0}}, readings_);
  }

  /// False: the byte is not allowed; the oracle is of no use then.
  bool push(char byte) {
    std::set<Reading> next;
    for (const Reading& reading : readings_) take(reading, static_cast<uint8_t>(byte), next);
    readings_ = std::move(next);
    return !readings_.empty();
  }

  /// Whether the text so far is complete.
  bool ends() const { return readings_.count({}) > 0; }

  /// Whether the bytes may come next; some.
  bool allows(std::string_view bytes) const {
    std::set<Reading> now;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::set<Reading> next;
      for (const Reading& reading : i == 0 ? readings_ : now)
        take(reading, static_cast<uint8_t>(bytes[i]), next);
      if (next.empty()) return false;
      now = std::move(next);
    }
    return true;
  }

  size_t num_readings() const { return readings_.size(); }

 private:
  // A node, and how far in it: bytes of a literal, times of a repetition, the state of an
  // automaton.
  struct Task {
    NodeId node = 0;
    uint32_t done = 0;
    uint32_t begun = 0;  // a repetition whose part has just begun must take a byte in it
    auto operator<=>(const Task&) const = default;
  };
  using Reading = std::vector<Task>;  // the last one comes next

  // Resolves the front of a reading until it takes a byte or is empty.
  void expand(Reading reading, std::set<Reading>& out) const {
    std::set<Reading> seen;
    std::vector<Reading> work = {std::move(reading)};
    while (!work.empty()) {
      Reading one = std::move(work.back());
      work.pop_back();
      if (!seen.insert(one).second) continue;
      if (one.empty() || !resolve(one, work)) out.insert(one);
    }
  }

  // Replaces the front by what it can be, in `work`; false: it takes a byte as it is.
  bool resolve(const Reading& reading, std::vector<Reading>& work) const {
    Reading rest = reading;
    const Task task = rest.back();
    rest.pop_back();
    const Node& node = grammar_.node(task.node);
    const auto with = [&rest](std::vector<Task> more) {
      Reading out = rest;
      out.insert(out.end(), more.begin(), more.end());
      return out;
    };
    switch (node.kind) {
      case NodeKind::kLiteral:
        if (task.done < grammar_.literal(node.a).size()) return false;
        work.push_back(rest);
        return true;
      case NodeKind::kBytes:
        return false;
      case NodeKind::kSequence: {
        const auto parts = grammar_.children(node);
        for (size_t i = parts.size(); i > 0; --i) rest.push_back({parts[i - 1], 0, 0});
        work.push_back(rest);
        return true;
      }
      case NodeKind::kChoice:
        for (const NodeId child : grammar_.children(node)) work.push_back(with({{child, 0, 0}}));
        return true;
      case NodeKind::kRepeat: {
        if (task.done >= node.b) work.push_back(rest);
        // Times beyond the lower bound of an endless repetition are all alike.
        const uint32_t done = node.c == kUnbounded && task.done >= node.b ? node.b : task.done + 1;
        if (task.done < node.c) work.push_back(with({{task.node, done, 0}, {node.a, 0, 0}}));
        return true;
      }
      case NodeKind::kRule:
        work.push_back(with({{grammar_.rules()[node.a].body, 0, 0}}));
        return true;
      case NodeKind::kRegular: {
        if (task.begun != 0) return false;
        if (grammar_.regular(node.a).states[task.done].accepts) work.push_back(rest);
        work.push_back(with({{task.node, task.done, 1}}));
        return true;
      }
    }
    return false;
  }

  void take(const Reading& reading, uint8_t byte, std::set<Reading>& out) const {
    if (reading.empty()) return;
    Reading rest = reading;
    const Task task = rest.back();
    rest.pop_back();
    const Node& node = grammar_.node(task.node);
    if (node.kind == NodeKind::kBytes) {
      if (grammar_.set(node.a)[byte]) expand(std::move(rest), out);
    } else if (node.kind == NodeKind::kLiteral) {
      if (static_cast<uint8_t>(grammar_.literal(node.a)[task.done]) != byte) return;
      rest.push_back({task.node, task.done + 1, 0});
      expand(std::move(rest), out);
    } else if (node.kind == NodeKind::kRegular) {
      for (const Regular::Edge& edge : grammar_.regular(node.a).states[task.done].edges) {
        if (byte < edge.first || byte > edge.last) continue;
        Reading next = rest;
        next.push_back({task.node, edge.to, 0});
        expand(std::move(next), out);
      }
    }
  }

  Grammar grammar_;
  std::set<Reading> readings_;
};

}  // namespace stoker::grammar::testing
