// Which tokens a state allows by what is known of it alone, in the smallest form that is cheap to
// add to a row; and the places in the tree of tokens where its rule may end, behind which the
// caller decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "grammar/chart.h"
#include "grammar/vocabulary.h"

namespace stoker::grammar {

struct TokenMask {
  uint32_t plain_chars = 0;     ///< plain tokens of at most so many characters
  std::vector<int32_t> ids;     ///< and these; or, where they are many:
  std::vector<uint64_t> words;  ///< all allowed tokens, the plain ones too; else empty
  bool over_others = false;     ///< `exits` are nodes of Vocabulary::others(), else of all()
  std::vector<uint32_t> exits;

  size_t memory_bytes() const {
    return sizeof(*this) + ids.size() * sizeof(int32_t) + words.size() * sizeof(uint64_t) +
           exits.size() * sizeof(uint32_t);
  }
};

/// What is known of plain characters in a state: any 1 .. min of them can follow, where min may be
/// Vocabulary::kMaxPlainChars, for any number. With `exact` no more can, and the rule cannot end
/// between them. {0, false}: nothing.
struct PlainReach {
  uint8_t min = 0;
  bool exact = false;
};

/// The reach of each state, in the order of the states.
std::vector<PlainReach> plain_reach(const Automaton& automaton);

/// Walks trees of tokens along a chart. Borrows what it is given.
class TokenWalk {
 public:
  TokenWalk(const Vocabulary& vocabulary, Chart& chart) : vocabulary_(vocabulary), chart_(chart) {}

  /// The mask of a state. Leaves the chart anywhere.
  TokenMask mask_of(StateId state, PlainReach reach);
  /// Sets the bits of the tokens below `node` that the chart allows from where it stands, `node`
  /// being there. Leaves the chart where it was.
  void add_below(const Trie& trie, uint32_t node, std::span<uint64_t> mask);

  /// Nodes looked at so far.
  size_t num_steps() const { return num_steps_; }

 private:
  template <class Found>
  void walk(const Trie& trie, uint32_t node, const Found& found);

  const Vocabulary& vocabulary_;
  Chart& chart_;
  size_t num_steps_ = 0;
};

/// Adds a mask to a row of Vocabulary::num_words() words.
void add_to(const TokenMask& mask, const Vocabulary& vocabulary, std::span<uint64_t> row);

}  // namespace stoker::grammar
