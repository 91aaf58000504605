// The form of a grammar that runs: a deterministic automaton over bytes for each rule, with calls
// between them. Texts are followed through it by chart.h.
//
// A state is a set of places in one rule, so alternatives that begin alike share their states; only
// where calls differ do several states stand at a time. Every state can be completed: what is alive
// is the beginning of some text of the grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/nfa.h"
#include "stoker/result.h"

namespace stoker::grammar {

using StateId = uint32_t;
inline constexpr StateId kDead = UINT32_MAX;

/// Immutable; safe from any thread.
class Automaton {
 public:
  struct Call {
    StateId start = 0;  ///< of the rule called
    StateId to = 0;     ///< where the caller goes on
  };

  /// Errors: kInvalidArgument for a grammar that allows nothing, or beyond the limits.
  static Result<Automaton> build(const Grammar& grammar, const CompileLimits& limits = {});

  size_t num_states() const { return accepts_.size(); }
  StateId start() const { return start_; }
  /// The state behind a byte, by an edge of this state itself; kDead if it has none.
  StateId step(StateId state, uint8_t byte) const {
    return next_[size_t{state} * num_classes_ + classes_[byte]];
  }
  /// Whether the rule may end here.
  bool accepts(StateId state) const { return accepts_[state] != 0; }
  std::span<const Call> calls(StateId state) const {
    return std::span(calls_).subspan(call_begin_[state],
                                     call_begin_[state + 1] - call_begin_[state]);
  }
  /// Bytes that may come next within the rule, also those by calls.
  const ByteSet& first(StateId state) const { return first_[state]; }
  /// Where the rule of any character of two to four bytes starts; kDead without one.
  StateId multibyte_start() const { return multibyte_start_; }
  /// Bytes with the same class lead everywhere to the same states.
  size_t num_classes() const { return num_classes_; }
  uint8_t class_of(uint8_t byte) const { return classes_[byte]; }
  size_t memory_bytes() const;

 private:
  friend class Determiniser;
  Automaton() = default;
  void compute_first();

  StateId start_ = 0;
  StateId multibyte_start_ = kDead;
  size_t num_classes_ = 1;
  std::vector<uint8_t> classes_;      // [256]
  std::vector<StateId> next_;         // [states, classes]
  std::vector<uint8_t> accepts_;      // [states]
  std::vector<uint32_t> call_begin_;  // [states + 1], into calls_
  std::vector<Call> calls_;
  std::vector<ByteSet> first_;  // [states]
};

}  // namespace stoker::grammar
