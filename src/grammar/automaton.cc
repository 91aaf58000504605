#include "grammar/automaton.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/try.h"
#include "grammar/regular.h"

namespace stoker::grammar {
namespace {

Error too_many(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "grammar too large: it needs more than " + what, {}};
}

struct SubsetHash {
  size_t operator()(const std::vector<uint32_t>& states) const {
    uint64_t hash = states.size();
    for (const uint32_t s : states) hash = (hash ^ s) * 0x9E3779B97F4A7C15ULL + (hash >> 29);
    return hash;
  }
};

}  // namespace

// The subset construction, over all rules at once.
class Determiniser {
 public:
  Determiniser(const Nfa& nfa, const CompileLimits& limits)
      : nfa_(nfa), limits_(limits), seen_(nfa.states.size(), 0) {}

  Result<Automaton> run() {
    find_classes();
    out_.start_ = state_of_rule(nfa_.start);
    for (StateId s = 0; s < subsets_.size(); ++s) {
      if (subsets_.size() > limits_.max_states)
        return too_many(std::to_string(limits_.max_states) + " states");
      if (num_entries_ > limits_.max_subset_entries) return too_many("is kept of its alternatives");
      if (out_.next_.size() * sizeof(StateId) > limits_.max_table_bytes)
        return too_many(std::to_string(limits_.max_table_bytes) + " bytes");
      expand(s);
    }
    out_.call_begin_.push_back(static_cast<uint32_t>(out_.calls_.size()));
    if (nfa_.multibyte_start != UINT32_MAX) {
      const auto found = rules_.find(nfa_.multibyte_start);
      if (found != rules_.end()) out_.multibyte_start_ = found->second;
    }
    out_.compute_first();
    return std::move(out_);
  }

 private:
  // Bytes are alike where no edge tells them apart.
  void find_classes() {
    std::vector<uint32_t> colour(256, 0);
    std::unordered_map<ByteSet, bool> sets;
    for (const Nfa::State& state : nfa_.states)
      for (const Nfa::Edge& edge : state.edges) sets.try_emplace(edge.bytes, true);
    for (const auto& [set, unused] : sets) {
      std::map<std::pair<uint32_t, bool>, uint32_t> number;
      for (size_t byte = 0; byte < 256; ++byte) {
        colour[byte] =
            number.try_emplace({colour[byte], set[byte]}, static_cast<uint32_t>(number.size()))
                .first->second;
      }
    }
    // In the order of the bytes: the order of `sets` is nobody's business.
    std::map<uint32_t, uint8_t> number;
    out_.classes_.resize(256);
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto [at, is_new] =
          number.try_emplace(colour[byte], static_cast<uint8_t>(number.size()));
      if (is_new) examples_.push_back(static_cast<uint8_t>(byte));
      out_.classes_[byte] = at->second;
    }
    out_.num_classes_ = number.size();
  }

  // The state of what empty moves reach from these; kDead if nothing there can be completed.
  StateId state_of(const std::vector<uint32_t>& from) {
    ++stamp_;
    std::vector<uint32_t> key;
    std::vector<uint32_t> work;
    const auto visit = [&](uint32_t s) {
      if (seen_[s] == stamp_ || !nfa_.states[s].useful) return;
      seen_[s] = stamp_;
      work.push_back(s);
    };
    for (const uint32_t s : from) visit(s);
    while (!work.empty()) {
      const uint32_t s = work.back();
      work.pop_back();
      const Nfa::State& state = nfa_.states[s];
      if (state.ends_rule || !state.edges.empty() || !state.calls.empty()) key.push_back(s);
      for (const uint32_t to : state.empty) visit(to);
      for (const Nfa::Call& call : state.calls)
        if (nfa_.states[call.start].nullable) visit(call.to);
    }
    if (key.empty()) return kDead;
    std::sort(key.begin(), key.end());
    const auto [at, is_new] =
        numbers_.try_emplace(std::move(key), static_cast<StateId>(subsets_.size()));
    if (is_new) {
      subsets_.push_back(&at->first);
      num_entries_ += at->first.size();
    }
    return at->second;
  }

  StateId state_of_rule(uint32_t nfa_start) {
    const auto found = rules_.find(nfa_start);
    if (found != rules_.end()) return found->second;
    const StateId state = state_of({nfa_start});
    rules_.emplace(nfa_start, state);
    return state;
  }

  void expand(StateId s) {
    const std::vector<uint32_t>& subset = *subsets_[s];
    bool accepts = false;
    std::vector<const Nfa::Edge*> edges;
    std::map<uint32_t, std::vector<uint32_t>> calls;
    for (const uint32_t place : subset) {
      const Nfa::State& state = nfa_.states[place];
      accepts = accepts || state.ends_rule;
      for (const Nfa::Edge& edge : state.edges) edges.push_back(&edge);
      for (const Nfa::Call& call : state.calls)
        if (nfa_.states[call.start].useful) calls[call.start].push_back(call.to);
    }
    out_.accepts_.push_back(accepts ? 1 : 0);
    std::vector<uint32_t> targets;
    for (const uint8_t example : examples_) {
      targets.clear();
      for (const Nfa::Edge* edge : edges)
        if (edge->bytes[example]) targets.push_back(edge->to);
      out_.next_.push_back(targets.empty() ? kDead : state_of(targets));
    }
    out_.call_begin_.push_back(static_cast<uint32_t>(out_.calls_.size()));
    for (const auto& [start, to] : calls) {
      const StateId after = state_of(to);
      if (after != kDead) out_.calls_.push_back({state_of_rule(start), after});
    }
  }

  const Nfa& nfa_;
  const CompileLimits& limits_;
  Automaton out_;
  std::vector<uint8_t> examples_;  // a byte of each class
  std::vector<uint32_t> seen_;     // [NFA states], the stamp of the last visit
  uint32_t stamp_ = 0;
  std::unordered_map<std::vector<uint32_t>, StateId, SubsetHash> numbers_;
  std::vector<const std::vector<uint32_t>*> subsets_;  // the keys of numbers_
  std::map<uint32_t, StateId> rules_;                  // by the NFA state a rule starts with
  size_t num_entries_ = 0;
};

Result<Automaton> Automaton::build(const Grammar& grammar, const CompileLimits& limits) {
  TRY_ASSIGN(const Nfa nfa, build_nfa(grammar, limits));
  return Determiniser(nfa, limits).run();
}

void Automaton::compute_first() {
  first_.resize(num_states());
  for (StateId s = 0; s < num_states(); ++s)
    for (size_t byte = 0; byte < 256; ++byte)
      if (step(s, static_cast<uint8_t>(byte)) != kDead) first_[s].set(byte);
  // Calls hand theirs on, along chains: callers are asked again when what they call has grown.
  std::vector<std::vector<StateId>> callers(num_states());
  std::vector<StateId> work;
  for (StateId s = 0; s < num_states(); ++s) {
    for (const Call& call : calls(s)) callers[call.start].push_back(s);
    work.push_back(s);
  }
  while (!work.empty()) {
    const StateId s = work.back();
    work.pop_back();
    for (const StateId caller : callers[s]) {
      const ByteSet joined = first_[caller] | first_[s];
      if (joined == first_[caller]) continue;
      first_[caller] = joined;
      work.push_back(caller);
    }
  }
}

size_t Automaton::memory_bytes() const {
  return next_.size() * sizeof(StateId) + calls_.size() * sizeof(Call) +
         num_states() * (sizeof(ByteSet) + 5);
}

Result<Regular> to_regular(const Grammar& grammar) {
  CompileLimits limits;
  limits.max_states = kMaxRegularStates;
  TRY_ASSIGN(const Automaton automaton, Automaton::build(grammar, limits));
  Regular out;
  out.states.resize(automaton.num_states());
  // The start is state 0: it is numbered first.
  for (StateId s = 0; s < automaton.num_states(); ++s) {
    if (!automaton.calls(s).empty())
      return Error{ErrorCode::kUnsupported, "recursion where an expression is expected", {}};
    Regular::State& state = out.states[s];
    state.accepts = automaton.accepts(s);
    for (int byte = 0; byte < 256; ++byte) {
      const StateId to = automaton.step(s, static_cast<uint8_t>(byte));
      if (to == kDead) continue;
      if (!state.edges.empty() && state.edges.back().to == to &&
          state.edges.back().last + 1 == byte) {
        state.edges.back().last = static_cast<uint8_t>(byte);
      } else {
        state.edges.push_back({static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to});
      }
    }
  }
  return out;
}

}  // namespace stoker::grammar
