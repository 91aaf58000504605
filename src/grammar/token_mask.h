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

/// Nodes of a tree of tokens at which a rule may end while tokens go on.
struct ExitSet {
  bool over_others = false;  ///< of Vocabulary::others(), else of all()
  std::vector<uint32_t> nodes;

  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm
  auto operator<=>(const ExitSet&) const = default;
};

struct TokenMask {
  static constexpr uint32_t kNoExits = 0;
  static constexpr uint32_t kOwnExits = UINT32_MAX;

  uint32_t plain_chars = 0;     ///< plain tokens of at most so many characters
  std::vector<int32_t> ids;     ///< and these; or, where they are many:
  std::vector<uint64_t> words;  ///< all allowed tokens, the plain ones too; else empty
  uint32_t exits = kNoExits;    ///< the number of the set that the program keeps; or kOwnExits:
  ExitSet own_exits;            ///< there was no memory to keep it
  size_t work = 0;              ///< Chart::work that it took
  bool is_complete = true;      ///< false: it would have taken more than TokenWalk::kMaxWork

  size_t memory_bytes() const {
    return sizeof(*this) + ids.size() * sizeof(int32_t) + words.size() * sizeof(uint64_t) +
           own_exits.nodes.size() * sizeof(uint32_t);
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
  /// Of one mask; a tenth of a second, about. Grammars that need more have so many readings of the
  /// same text that they are of no use.
  static constexpr size_t kMaxWork = 4'000'000;

  TokenWalk(const Vocabulary& vocabulary, Chart& chart) : vocabulary_(vocabulary), chart_(chart) {}

  /// The mask of a state, its exits in `own_exits`. Leaves the chart anywhere.
  TokenMask mask_of(StateId state, PlainReach reach);
  /// The tokens that go on from `exits` in a state, with the exits of that state's rule in
  /// `own_exits`. Leaves the chart anywhere.
  TokenMask extension_of(const ExitSet& exits, StateId state);

 private:
  void add_below(const Trie& trie, uint32_t node, TokenMask& mask);
  void finish(TokenMask& mask, size_t work_before) const;
  template <class Found>
  bool walk(const Trie& trie, uint32_t node, size_t max_work, const Found& found);

  const Vocabulary& vocabulary_;
  Chart& chart_;
};

/// Adds a mask to a row of Vocabulary::num_words() words.
void add_to(const TokenMask& mask, const Vocabulary& vocabulary, std::span<uint64_t> row);

}  // namespace stoker::grammar
