#include "grammar/mask_classes.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace stoker::grammar {
namespace {

// What a state does: a list of (label, state). Labels of bytes stand for a set of classes of bytes,
// a call is two entries.
using Moves = std::vector<std::pair<uint32_t, StateId>>;

std::vector<Moves> moves_of(const Automaton& automaton) {
  std::map<std::vector<bool>, uint32_t> labels;
  constexpr uint32_t kStart = 0;
  constexpr uint32_t kAfter = 1;
  std::vector<uint8_t> examples;
  std::vector<bool> seen(automaton.num_classes(), false);
  for (int byte = 0; byte < 256; ++byte) {
    const uint8_t one = automaton.class_of(static_cast<uint8_t>(byte));
    if (!seen[one]) examples.push_back(static_cast<uint8_t>(byte));
    seen[one] = true;
  }
  std::vector<Moves> moves(automaton.num_states());
  std::map<StateId, std::vector<bool>> sets;
  for (StateId s = 0; s < moves.size(); ++s) {
    sets.clear();
    for (size_t i = 0; i < examples.size(); ++i) {
      const StateId to = automaton.step(s, examples[i]);
      if (to == kDead) continue;
      auto& set = sets[to];
      set.resize(examples.size());
      set[i] = true;
    }
    for (const auto& [to, set] : sets) {
      const auto label = labels.try_emplace(set, static_cast<uint32_t>(labels.size()) + 2);
      moves[s].emplace_back(label.first->second, to);
    }
    std::sort(moves[s].begin(), moves[s].end());
    for (const Automaton::Call& call : automaton.calls(s)) {
      moves[s].emplace_back(kStart, call.start);
      moves[s].emplace_back(kAfter, call.to);
    }
  }
  return moves;
}

struct WordsHash {
  size_t operator()(const std::vector<uint32_t>& words) const {
    uint64_t hash = words.size();
    for (const uint32_t word : words) hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL + (hash >> 31);
    return hash;
  }
};

}  // namespace

std::vector<uint32_t> mask_classes(const Automaton& automaton, size_t max_bytes) {
  const std::vector<Moves> moves = moves_of(automaton);
  std::vector<uint32_t> classes(moves.size(), 0);
  size_t num_classes = 0;
  // Round by round states are told apart by one byte more (E. F. Moore, 1956), until nothing
  // changes or no token is longer.
  std::vector<uint32_t> next(moves.size());
  for (size_t round = 0; round <= max_bytes; ++round) {
    std::unordered_map<std::vector<uint32_t>, uint32_t, WordsHash> numbers;
    for (StateId s = 0; s < moves.size(); ++s) {
      std::vector<uint32_t> key = {classes[s], automaton.accepts(s) ? 1U : 0U};
      for (const auto& [label, to] : moves[s]) {
        key.push_back(label);
        key.push_back(round == 0 ? 0 : classes[to]);
      }
      next[s] =
          numbers.try_emplace(std::move(key), static_cast<uint32_t>(numbers.size())).first->second;
    }
    classes.swap(next);
    if (numbers.size() == num_classes) break;
    num_classes = numbers.size();
  }
  return classes;
}

}  // namespace stoker::grammar
