// The V4.1 text backbone. A forward call takes a flat batch of rows from any number of sequences:
// prefill in chunks, decode and several sequences are one mechanism, and the bits of a row depend
// on its own sequence alone.
#pragma once

#include <cstdint>
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
};

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

  /// Runs every row of the batch, makes the captures, advances each segment's state, and writes the
  /// logits of the rows that are wanted. batch: no state twice; wanted: flat row numbers (segments
  /// in order), ascending, none before its state's late_from(); logits [wanted, vocab_size] f32.
  /// trace may be null; it sees the rows of all segments in order. The workspace is used by this
  /// call alone meanwhile. Cannot fail: values that overflow become logits that are not finite, in
  /// their own sequence only. Source: tools/reference/v41/model.py, Model.forward.
  void forward(Workspace& work, std::span<const Segment> batch, std::span<const int64_t> wanted,
               float* logits, Trace* trace) const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stoker
