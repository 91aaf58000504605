// A grammar compiled for a vocabulary: the automaton, and for its states the tokens that each
// allows. What a token may do behind the end of a rule depends on who called it; that is left to
// the matcher, which has the callers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/token_mask.h"
#include "grammar/vocabulary.h"
#include "stoker/result.h"

namespace stoker::grammar {

struct ProgramOptions {
  CompileLimits limits;
  /// Masks are made while compiling until it took so much Chart::work (about 2 * 10^7 a second);
  /// the others when they are first needed.
  size_t max_eager_work = 20'000'000;
  /// Masks beyond so many bytes are not kept, but made again each time.
  size_t max_mask_bytes = size_t{64} << 20;
};

/// Immutable but for masks that are made later, of which nothing but time depends; safe from any
/// thread.
class Program {
 public:
  /// Slow: milliseconds to seconds. Errors: kInvalidArgument for a grammar that allows nothing, is
  /// too large, or too ambiguous.
  static Result<std::shared_ptr<const Program>> compile(
      const Grammar& grammar, std::shared_ptr<const Vocabulary> vocabulary,
      const ProgramOptions& options = {});

  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Automaton& automaton() const { return automaton_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  /// The mask of a state; valid as long as the program and `spare`, which takes it where it is not
  /// kept.
  const TokenMask& mask(StateId state, TokenMask& spare) const;
  /// The tokens that go on from the exits of `from` in a state, and the exits of that state's rule.
  /// `from` has exits. Valid as mask().
  const TokenMask& extension(const TokenMask& from, StateId state, TokenMask& spare) const;

  size_t num_masks() const { return num_classes_; }  ///< that can be needed
  size_t num_masks_made() const;                     ///< that are there
  size_t num_extensions() const;
  size_t memory_bytes() const;  ///< of masks and automaton

 private:
  Program(Automaton automaton, std::shared_ptr<const Vocabulary> vocabulary,
          const ProgramOptions& options);
  Result<void> make_masks(size_t max_work);
  void make_extensions(TokenWalk& walk, const Chart& chart, size_t max_work);
  bool take_memory(size_t bytes) const;
  bool keep_exits(TokenMask& mask) const;
  const TokenMask* keep(uint32_t index, TokenMask& mask) const;
  const TokenMask* keep_extension(uint64_t key, TokenMask& mask) const;

  Automaton automaton_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  size_t max_mask_bytes_;
  std::vector<PlainReach> reach_;   // [states]
  std::vector<uint32_t> class_of_;  // [states]
  std::vector<StateId> example_;    // [classes], a state of each
  size_t num_classes_ = 0;
  mutable std::vector<std::atomic<const TokenMask*>> masks_;  // [classes], null: not made
  mutable std::atomic<size_t> mask_bytes_ = 0;
  mutable std::shared_mutex mutex_;  // guards what follows; what is in there stays where it is
  mutable std::map<ExitSet, uint32_t> exit_numbers_;  // from 1
  mutable std::vector<const ExitSet*> exits_;         // by number, less 1
  mutable std::unordered_map<uint64_t, std::unique_ptr<const TokenMask>>
      extensions_;  // extension_key
};

}  // namespace stoker::grammar
