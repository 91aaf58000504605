// The first form of a compiled grammar: one automaton for all rules, not deterministic. automaton.h
// makes the one that runs.
//
// A call at the end of a rule is a jump: what is called then ends the caller too. So lists that
// recurse on their right are loops, and need no stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grammar/grammar.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// What compiling may take. Beyond it a grammar is refused: counted, not timed, so that the same
/// grammar is refused everywhere.
struct CompileLimits {
  size_t max_nfa_states = 400'000;
  size_t max_states = 60'000;
  size_t max_subset_entries = 6'000'000;  ///< NFA states over all states
  size_t max_table_bytes = size_t{96} << 20;
};

struct Nfa {
  struct Edge {
    ByteSet bytes;
    uint32_t to = 0;
  };
  struct Call {
    uint32_t start = 0;  ///< the first state of the rule called
    uint32_t to = 0;
  };
  struct State {
    std::vector<uint32_t> empty;  ///< targets of empty moves
    std::vector<Edge> edges;
    std::vector<Call> calls;
    bool ends_rule = false;
    bool useful = false;    ///< the end of its rule can be reached
    bool nullable = false;  ///< without a byte
  };
  std::vector<State> states;
  uint32_t start = 0;
  uint32_t multibyte_start = UINT32_MAX;  ///< of Grammar::multibyte
};

/// The message of the error for a grammar that allows nothing.
inline constexpr const char* kNothingAllowed = "the grammar allows no text at all";

/// Errors: kInvalidArgument for a grammar that allows nothing, or beyond the limits.
Result<Nfa> build_nfa(const Grammar& grammar, const CompileLimits& limits);

}  // namespace stoker::grammar
