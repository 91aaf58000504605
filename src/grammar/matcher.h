// Follows one sequence through a program: which tokens may come next, what a token leads to, and
// back again, for drafts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "grammar/chart.h"
#include "grammar/program.h"
#include "grammar/token_mask.h"

namespace stoker::grammar {

/// One owner at a time. A copy is independent, and costs what has been accepted; rollback is the
/// cheap way. Depends on the grammar and the accepted ids, and on nothing else.
class Matcher {
 public:
  /// Tokens that can be rolled back at least.
  static constexpr size_t kMaxRollback = 64;
  /// Chart::work that a mask may take where nothing of it is there yet: a third of a second, about.
  static constexpr size_t kMaxWork = 10'000'000;

  explicit Matcher(std::shared_ptr<const Program> program);

  /// Sets bit i % 64 of word i / 64 where id i may come next, and clears all others; ids that end
  /// are allowed where the text is complete. mask has mask_words(vocabulary size) words at least;
  /// words behind these are cleared. After an end only ids that end are set, though none comes.
  /// False: the grammar is too ambiguous here (kMaxWork), and the mask says nothing. A request that
  /// comes to such a place should fail; whether it does depends on its ids alone.
  [[nodiscard]] bool fill(std::span<uint64_t> mask);

  /// The token of that id comes next. False: it is not allowed, or the matcher has ended; then
  /// nothing has changed but failed().
  bool accept(int32_t id);

  /// Takes back the last tokens that were accepted, at most kMaxRollback.
  void rollback(size_t num_tokens);

  size_t num_tokens() const { return num_forgotten_ + tokens_.size(); }  ///< accepted so far
  bool can_end() const { return chart_.ends(); }  ///< the text is complete as it is
  bool ended() const { return ended_; }           ///< an id that ends was accepted
  /// The last accept was refused for this reason alone: more readings of the text would have stood
  /// side by side than Chart::kMaxItems. The mask may have had the id, so a request to which this
  /// happens should fail; it depends on its ids alone.
  bool failed() const { return failed_; }

 private:
  // What goes on behind the end of the rule of a frame.
  struct Exit {
    const TokenMask* from = nullptr;
    Chart::FrameId frame = 0;
  };
  template <class Make>
  const TokenMask& with_spare(const Make& make);
  bool add(const TokenMask& found, Chart::FrameId frame, std::span<uint64_t> row);

  std::shared_ptr<const Program> program_;
  Chart chart_;
  std::vector<size_t> tokens_;    // positions behind the last ones
  size_t num_forgotten_ = 0;      // accepted before these
  size_t work_ = 0;               // of a fill, as if nothing were there yet
  std::vector<Exit> exits_;       // of a fill
  std::deque<TokenMask> spares_;  // of a fill: masks that the program does not keep
  bool ended_ = false;
  bool failed_ = false;
};

}  // namespace stoker::grammar
