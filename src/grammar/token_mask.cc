#include "grammar/token_mask.h"

#include <algorithm>
#include <array>

namespace stoker::grammar {
namespace {

constexpr auto kMaxPlain = static_cast<uint8_t>(Vocabulary::kMaxPlainChars);

// The states behind one plain character.
struct PlainStep {
  bool known = false;  // one state stands behind each character, or none; else `to` is empty
  bool all = false;    // known, and each character leads somewhere
  std::vector<StateId> to;
};

class PlainSteps {
 public:
  explicit PlainSteps(const Automaton& automaton) : automaton_(automaton) {
    std::array<bool, 256> seen{};
    for (int byte = 0; byte < 0x80; ++byte) {
      const auto one = static_cast<uint8_t>(byte);
      if (!is_plain_ascii(one) || seen[automaton.class_of(one)]) continue;
      seen[automaton.class_of(one)] = true;
      ascii_.push_back(one);
    }
  }

  PlainStep of(StateId state) const {
    PlainStep step{true, true, {}};
    for (const uint8_t byte : ascii_) add(automaton_.step(state, byte), step);
    bool called = false;
    for (const Automaton::Call& call : automaton_.calls(state)) {
      if (call.start == automaton_.multibyte_start()) {
        called = true;
        add(call.to, step);
      } else if (takes_plain(automaton_.first(call.start))) {
        return {};  // two states may stand behind one character
      }
    }
    if (called && has_lead_edge(state)) return {};
    if (!called) add_multibyte(state, step);
    std::sort(step.to.begin(), step.to.end());
    step.to.erase(std::unique(step.to.begin(), step.to.end()), step.to.end());
    return step;
  }

 private:
  static void add(StateId to, PlainStep& step) {
    if (to == kDead) {
      step.all = false;
    } else if (step.to.empty() || step.to.back() != to) {
      step.to.push_back(to);
    }
  }

  static bool takes_plain(const ByteSet& first) {
    for (size_t byte = 0; byte < 256; ++byte)
      if (first[byte] && (byte >= 0xC2 || is_plain_ascii(static_cast<uint8_t>(byte)))) return true;
    return false;
  }

  bool has_lead_edge(StateId state) const {
    for (int byte = 0xC2; byte <= 0xF4; ++byte)
      if (automaton_.step(state, static_cast<uint8_t>(byte)) != kDead) return true;
    return false;
  }

  // Where each byte first .. last leads, `more` bytes 80 .. BF behind it.
  void add_range(StateId state, int first, int last, int more, PlainStep& step) const {
    StateId previous = kDead;
    for (int byte = first; byte <= last; ++byte) {
      const StateId to = automaton_.step(state, static_cast<uint8_t>(byte));
      if (byte > first && to == previous) continue;
      previous = to;
      if (to == kDead || more == 0) {
        add(to, step);
      } else {
        add_range(to, 0x80, 0xBF, more - 1, step);
      }
    }
  }

  void add_multibyte(StateId state, PlainStep& step) const {
    add_range(state, 0xC2, 0xDF, 1, step);
    add_range(state, 0xE1, 0xEC, 2, step);
    add_range(state, 0xEE, 0xEF, 2, step);
    add_range(state, 0xF1, 0xF3, 3, step);
    add_after(automaton_.step(state, 0xE0), 0xA0, 0xBF, 1, step);
    add_after(automaton_.step(state, 0xED), 0x80, 0x9F, 1, step);
    add_after(automaton_.step(state, 0xF0), 0x90, 0xBF, 2, step);
    add_after(automaton_.step(state, 0xF4), 0x80, 0x8F, 2, step);
  }

  void add_after(StateId state, int first, int last, int more, PlainStep& step) const {
    if (state == kDead) {
      step.all = false;
    } else {
      add_range(state, first, last, more, step);
    }
  }

  const Automaton& automaton_;
  std::vector<uint8_t> ascii_;  // one of each class
};

// Adds the ids to the plain ones as words where that is smaller.
void pack(const Vocabulary& vocabulary, TokenMask& mask) {
  if (mask.ids.size() * sizeof(int32_t) <= vocabulary.num_words() * sizeof(uint64_t)) {
    mask.ids.shrink_to_fit();
    return;
  }
  const auto plain = vocabulary.plain(mask.plain_chars);
  mask.words.assign(plain.begin(), plain.end());
  for (const int32_t id : mask.ids)
    mask.words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  mask.ids = {};
}

}  // namespace

std::vector<PlainReach> plain_reach(const Automaton& automaton) {
  const PlainSteps steps(automaton);
  std::vector<PlainStep> step(automaton.num_states());
  for (StateId s = 0; s < step.size(); ++s) step[s] = steps.of(s);
  std::vector<uint8_t> min(step.size(), 0);
  std::vector<uint8_t> dead(step.size(), 0);  // so many characters lead nowhere; 0: not known
  for (uint8_t round = 1; round <= kMaxPlain + 1; ++round) {
    for (StateId s = 0; s < step.size(); ++s) {
      const auto& to = step[s].to;
      if (round <= kMaxPlain && step[s].all &&
          std::all_of(to.begin(), to.end(), [&](StateId t) { return min[t] >= round - 1; }))
        min[s] = round;
      if (dead[s] == 0 && step[s].known && !automaton.accepts(s) &&
          std::all_of(to.begin(), to.end(),
                      [&](StateId t) { return dead[t] != 0 && dead[t] < round; }))
        dead[s] = round;
    }
  }
  std::vector<PlainReach> reach(step.size());
  for (StateId s = 0; s < step.size(); ++s) reach[s] = {min[s], dead[s] == min[s] + 1};
  return reach;
}

// False: it would take more than `max_work`.
template <class Found>
bool TokenWalk::walk(const Trie& trie, uint32_t node, size_t max_work, const Found& found) {
  const size_t base = chart_.position();
  const size_t base_depth = trie.node(node).depth;
  const uint32_t end = trie.node(node).end;
  for (uint32_t at = node + 1; at < end;) {
    const Trie::Node& here = trie.node(at);
    chart_.cut(base + here.depth - base_depth - 1);
    if (chart_.work() > max_work) return false;
    if (chart_.push(here.byte)) {
      found(at);
      ++at;
    } else {
      at = here.end;
    }
  }
  chart_.cut(base);
  return true;
}

TokenMask TokenWalk::mask_of(StateId state, PlainReach reach) {
  TokenMask mask;
  const bool over_others = reach.exact || reach.min == kMaxPlain;
  if (over_others) mask.plain_chars = reach.min;
  mask.own_exits.over_others = over_others;
  const size_t work_before = chart_.work();
  mask.work = work_before + kMaxWork;
  chart_.reset(state);
  add_below(over_others ? vocabulary_.others() : vocabulary_.all(), 0, mask);
  finish(mask, work_before);
  return mask;
}

TokenMask TokenWalk::extension_of(const ExitSet& exits, StateId state) {
  TokenMask mask;
  mask.own_exits.over_others = exits.over_others;
  const size_t work_before = chart_.work();
  mask.work = work_before + kMaxWork;
  chart_.reset(state);
  const bool ends_at_once = chart_.ends();
  for (const uint32_t node : exits.nodes) {
    if (!mask.is_complete) break;
    if (ends_at_once) mask.own_exits.nodes.push_back(node);
    add_below(exits.over_others ? vocabulary_.others() : vocabulary_.all(), node, mask);
  }
  finish(mask, work_before);
  return mask;
}

void TokenWalk::add_below(const Trie& trie, uint32_t node, TokenMask& mask) {
  // Its own field holds the bound until finish().
  mask.is_complete = walk(trie, node, mask.work, [&](uint32_t at) {
    const auto tokens = trie.tokens(at);
    mask.ids.insert(mask.ids.end(), tokens.begin(), tokens.end());
    if (chart_.ends() && trie.node(at).end > at + 1) mask.own_exits.nodes.push_back(at);
  });
}

void TokenWalk::finish(TokenMask& mask, size_t work_before) const {
  mask.work = chart_.work() - work_before;
  // Two exits, one below the other, may lead to the same.
  std::sort(mask.ids.begin(), mask.ids.end());
  mask.ids.erase(std::unique(mask.ids.begin(), mask.ids.end()), mask.ids.end());
  auto& nodes = mask.own_exits.nodes;
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  nodes.shrink_to_fit();
  if (nodes.empty()) mask.own_exits.over_others = false;
  mask.exits = nodes.empty() ? TokenMask::kNoExits : TokenMask::kOwnExits;
  pack(vocabulary_, mask);
}

void add_to(const TokenMask& mask, const Vocabulary& vocabulary, std::span<uint64_t> row) {
  if (!mask.words.empty()) {
    for (size_t i = 0; i < row.size(); ++i) row[i] |= mask.words[i];
    return;
  }
  if (mask.plain_chars > 0) {
    const auto plain = vocabulary.plain(mask.plain_chars);
    for (size_t i = 0; i < row.size(); ++i) row[i] |= plain[i];
  }
  for (const int32_t id : mask.ids) row[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
}

}  // namespace stoker::grammar
