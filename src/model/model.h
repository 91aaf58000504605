// The V4.1 text backbone and its draft head. A forward call takes a flat batch of rows from any
// number of sequences: prefill in chunks, decode and several sequences are one mechanism, and the
// bits of a row depend on its own sequence alone.
//
// A step with drafts is three calls. In one forward(), beside chunks of prompts (many ids) and
// plain decodes (one id), a sequence with drafts is a segment of its pending token and the drafts
// to be verified, all of whose logits are wanted: row k is what follows after k drafts. Then, as
// each row's token is chosen, roll_back() of its state leaves the accepted rows alone; images of
// captures behind the new length are void. Last, draft() proposes what the next step verifies.
// States that shall draft keep their draft keys in every forward(), Segment::draft_keys_from;
// whether, how much and for whom is drafted and verified changes no bit of any row.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kv/sequence_state.h"
#include "model/replay.h"
#include "model/trace.h"
#include "model/workspace.h"
#include "stoker/result.h"

namespace stoker {

/// An image to be made of a sequence's slot while its rows run: as it is after the rows before
/// `position`, which is in (state->length(), state->length() + rows] and a multiple of
/// kBlockTokens.
struct Capture {
  int64_t position = 0;
  SlotImage image;
};

/// Rows of one sequence in a batch: the tokens at positions state->length() and on, which are
/// reserved in the state. Every id is in the vocabulary.
struct Segment {
  SequenceState* state = nullptr;
  std::span<const int32_t> ids;         ///< at least one
  std::span<const Capture> captures{};  ///< whole ones only where the late rings are exact
  /// Rows from this position on keep their keys for the draft head, whose next round reads those of
  /// the last sliding_window positions; so do the rows before whole captures. kNoDraftKeys: none,
  /// and no cost. Ignored without a draft head.
  int64_t draft_keys_from = kNoDraftKeys;

  static constexpr int64_t kNoDraftKeys = std::numeric_limits<int64_t>::max();
};

/// A sequence in a draft round.
struct DraftJob {
  SequenceState* state = nullptr;  ///< is only read
  int32_t pending = 0;             ///< the token at state->length(), which was not run yet
  /// Out: drafts of the positions after it, as many in all jobs, at most dspark_block_size.
  std::span<int32_t> tokens{};
  /// Out [tokens]: its sigmoid is about the probability that the draft is accepted if those before
  /// it are.
  std::span<float> confidence{};
};

/// Chooses the draft of a position from its logits [vocab_size]: an id. job: number in the batch.
/// Called from the pool's threads, for different jobs at the same time.
using PickDraft =
    std::function<int32_t(size_t job, int64_t position, std::span<const float> logits, int worker)>;

/// Sizes of a sequence's state under a configuration.
KvShape kv_shape(const ModelConfig& config, const Replay& replay = {});

/// Immutable after create(); borrows the config and the weights, packed or as a checkpoint has
/// them, so it must not outlive them.
class Model {
 public:
  /// token_map: Engram's class of each id, [vocab_size], each in [0, engram_compressed_vocab_size);
  /// ignored without Engram. replay: of make_replay for this config. Error: kCorruptData for a map
  /// of another size or with a class out of range.
  static Result<Model> create(const ModelConfig& config, const ModelWeights& weights,
                              std::vector<int32_t> token_map, const Replay& replay = {});

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelConfig& config() const;
  const Replay& replay() const;
  KvShape state_shape() const { return kv_shape(config(), replay()); }
  /// As it was given; empty without Engram.
  std::span<const int32_t> token_map() const;

  /// Runs every row of the batch, makes the captures, advances each segment's state, and writes the
  /// logits of the rows that are wanted. batch: no state twice; wanted: flat row numbers (segments
  /// in order), ascending, none before its state's late_from(); logits [wanted, vocab_size] f32.
  /// trace may be null; it sees the rows of all segments in order. The workspace is used by this
  /// call alone meanwhile. Cannot fail: values that overflow become logits that are not finite, in
  /// their own sequence only. Source: tools/reference/v41/model.py, Model.forward.
  void forward(Workspace& work, std::span<const Segment> batch, std::span<const int64_t> wanted,
               float* logits, Trace* trace) const;

  /// A round of the draft head for every job, from the draft keys that its state has (all of the
  /// last sliding_window positions: the reference's drafts; fewer: perhaps worse ones). Drafts are
  /// chosen by `pick`, or are the largest logits without. Changes no state. A sequence's drafts
  /// depend on it alone. With a draft head only. Source: tools/reference/v41/dspark.py,
  /// DraftHead.draft.
  void draft(Workspace& work, std::span<const DraftJob> batch, const PickDraft& pick = {}) const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stoker
