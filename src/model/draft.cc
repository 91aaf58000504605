// The draft head: keys of its stages from the backbone's streams, and rounds that propose a block
// of tokens. A round runs its stages on one row for each draft: the pending token's, then those of
// a noise token, which all see each other. Then drafts are chosen one after the other, as each
// one's logits depend on the draft before it.
//
// Source: tools/reference/v41/dspark.py.
#include <algorithm>

#include "kernels/norm.h"
#include "kernels/products.h"
#include "kernels/rope.h"
#include "model/layers.h"
#include "tensor/arith.h"

namespace stoker {
namespace {

// The first row of a segment whose draft keys are wanted: from it on all are made.
int64_t first_tapped(const Segment& segment, int64_t window) {
  const SequenceState& state = *segment.state;
  const int64_t end = state.length() + static_cast<int64_t>(segment.ids.size());
  if (segment.draft_keys_from == Segment::kNoDraftKeys) return end;
  int64_t from = std::max(segment.draft_keys_from, end - state.num_ring_rows());
  for (const Capture& capture : segment.captures) {
    if (capture.image.is_whole()) from = std::min(from, capture.position - window);
  }
  return std::clamp(std::max(from, state.late_from()), state.length(), end);
}

// What the stages' keys are made of, [rows, hidden].
std::span<float> main_rows(Step& step, std::span<const float> taps) {
  const int64_t hidden = step.config().hidden_size;
  const std::span<float> main = lin(step, taps, step.model.weights->mtp.main_proj);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    float* vector = main.data() + row * hidden;
    kernels::rms_norm(vector, step.model.draft.main_norm.data(), hidden, step.config().rms_norm_eps,
                      vector);
  });
  return main;
}

// What chains start from.
struct Chains {
  std::span<const DraftJob> jobs;
  size_t number = 0;                // of the first job in the whole batch
  std::span<const float> hidden{};  // [jobs, block, hidden]
  std::span<const float> normed{};  // the same
};

// The head's logits of the first `drafts` rows of each job, [jobs, drafts, vocab].
std::span<float> base_logits(Step& step, const Chains& chains, int64_t drafts) {
  const ModelConfig& c = step.config();
  const auto count = static_cast<int64_t>(chains.jobs.size());
  const std::span<int32_t> index = step.work.arena().take<int32_t>(count * drafts);
  for (int64_t i = 0; i < count * drafts; ++i) {
    index[static_cast<size_t>(i)] =
        static_cast<int32_t>(i / drafts * c.dspark_block_size + i % drafts);
  }
  const std::span<float> logits = step.floats(count * drafts * c.vocab_size);
  const kernels::Product product{{chains.normed.data(), count * c.dspark_block_size, c.hidden_size},
                                 index.data(),
                                 count * drafts,
                                 &step.model.weights->head,
                                 logits.data(),
                                 c.vocab_size};
  kernels::products(step.work.bench(), {&product, 1});
  return logits;
}

int32_t largest(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Draft number k of every job: adds what the draft before it makes likely, and chooses.
void choose_drafts(Step& step, const Chains& chains, int64_t k, std::span<float> logits,
                   int64_t drafts, const PickDraft& pick) {
  const ModelConfig& c = step.config();
  const DraftWeights& mtp = step.model.weights->mtp;
  const auto count = static_cast<int64_t>(chains.jobs.size());
  const int64_t hidden = c.hidden_size;
  const int64_t rank = c.dspark_markov_rank;
  const ArenaScope scope(step.work.arena());
  const std::span<float> embedded = step.floats(count * rank);
  for (int64_t i = 0; i < count; ++i) {
    const DraftJob& job = chains.jobs[static_cast<size_t>(i)];
    const int32_t before = k == 0 ? job.pending : job.tokens[static_cast<size_t>(k - 1)];
    decode_row(mtp.markov_head_embed, before, embedded.data() + i * rank);
  }
  const std::span<float> bias = lin(step, embedded, mtp.markov_head_head);
  const std::span<float> scratch = step.floats(step.work.pool().num_threads() * (hidden + rank));
  step.work.pool().run(count, [&](int64_t i, int worker) {
    const DraftJob& job = chains.jobs[static_cast<size_t>(i)];
    const std::span<float> own = logits.subspan(
        static_cast<size_t>((i * drafts + k) * c.vocab_size), static_cast<size_t>(c.vocab_size));
    const float* more = bias.data() + i * c.vocab_size;
    for (size_t id = 0; id < own.size(); ++id) own[id] = own[id] + more[id];
    float* both = scratch.data() + worker * (hidden + rank);
    std::copy_n(chains.hidden.data() + (i * c.dspark_block_size + k) * hidden, hidden, both);
    std::copy_n(embedded.data() + i * rank, rank, both + hidden);
    job.confidence[static_cast<size_t>(k)] =
        arith::lane_dot(step.model.draft.confidence.data(), both, hidden + rank);
    const int64_t position = job.state->length() + 1 + k;
    job.tokens[static_cast<size_t>(k)] =
        pick ? pick(chains.number + static_cast<size_t>(i), position, own, worker) : largest(own);
  });
}

}  // namespace

void prepare_taps(Step& step) {
  const ModelConfig& c = step.config();
  if (c.num_nextn_predict_layers == 0) return;
  Arena& arena = step.work.arena();
  const auto num_segments = static_cast<int64_t>(step.segments.size());
  step.tap_from = arena.take<int64_t>(num_segments);
  step.first_tap = arena.take<int64_t>(num_segments);
  int64_t count = 0;
  for (size_t s = 0; s < step.segments.size(); ++s) {
    const Segment& segment = step.segments[s];
    step.tap_from[s] = first_tapped(segment, c.sliding_window);
    step.first_tap[s] = count;
    count += segment.state->length() + static_cast<int64_t>(segment.ids.size()) - step.tap_from[s];
  }
  step.taps =
      step.floats(count * static_cast<int64_t>(c.dspark_target_layer_ids.size()) * c.hidden_size);
}

void tap(Step& step, int32_t layer) {
  if (step.taps.empty()) return;
  const ModelConfig& c = step.config();
  const std::vector<int32_t>& targets = c.dspark_target_layer_ids;
  const auto target = std::ranges::find(targets, layer);
  if (target == targets.end()) return;
  const auto num_targets = static_cast<int64_t>(targets.size());
  const int64_t hidden = c.hidden_size;
  const auto hc = static_cast<float>(c.hc_mult);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    const Row& at = step.rows[static_cast<size_t>(row)];
    const auto segment = static_cast<size_t>(at.segment);
    const int64_t number = at.position - step.tap_from[segment];
    if (number < 0) return;
    float* out =
        step.taps.data() +
        ((step.first_tap[segment] + number) * num_targets + (target - targets.begin())) * hidden;
    const float* streams = step.streams.data() + row * c.hc_mult * hidden;
    std::copy_n(streams, hidden, out);
    for (int32_t k = 1; k < c.hc_mult; ++k) {
      for (int64_t i = 0; i < hidden; ++i) out[i] = out[i] + streams[k * hidden + i];
    }
    for (int64_t i = 0; i < hidden; ++i) out[i] = out[i] / hc;
  });
}

void keep_draft_keys(const Step& pass) {
  for (size_t s = 0; s < pass.tap_from.size(); ++s) {
    SequenceState& state = *pass.segments[s].state;
    if (pass.tap_from[s] > state.length()) state.set_draft_from(pass.tap_from[s]);
    for (const Capture& capture : pass.segments[s].captures)
      capture.image.set_draft_from(std::min(state.draft_from(), capture.position));
  }
  if (pass.taps.empty()) return;
  const ModelConfig& c = pass.config();
  const int64_t turn = c.qk_rope_head_dim;
  const ArenaScope scope(pass.work.arena());
  Step step{.model = pass.model, .work = pass.work, .segments = pass.segments};
  number_rows(step, pass.tap_from);
  step.turn_window = step.floats(step.num_rows() * turn);
  step.for_each_row([&](int64_t row, int /*worker*/) {
    kernels::rotation(step.rows[static_cast<size_t>(row)].position, step.model.freq_window,
                      step.turn_window.data() + row * turn);
  });
  const std::span<const float> main = main_rows(step, pass.taps);
  for (int32_t stage = 0; stage < c.num_nextn_predict_layers; ++stage) {
    const ArenaScope of_stage(step.work.arena());
    const int32_t layer = c.num_hidden_layers + stage;
    keep_window(step, layer, remember(step, layer, main));
  }
}

void draft_round(const ModelParts& model, Workspace& work, std::span<const DraftJob> batch,
                 size_t first, const PickDraft& pick) {
  const ModelConfig& c = *model.config;
  const int64_t block = c.dspark_block_size;
  const auto count = static_cast<int64_t>(batch.size());
  const ArenaScope scope(work.arena());
  const std::span<int32_t> ids = work.arena().take<int32_t>(count * block);
  const std::span<Segment> segments = work.arena().take<Segment>(count);
  std::ranges::fill(ids, c.dspark_noise_token_id);
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::span<int32_t> own =
        ids.subspan(i * static_cast<size_t>(block), static_cast<size_t>(block));
    own[0] = batch[i].pending;
    segments[i] = {batch[i].state, own};
  }
  Step step{.model = model, .work = work, .segments = segments};
  number_rows(step, lengths(step));
  embed(step);
  for (int32_t stage = 0; stage < c.num_nextn_predict_layers; ++stage)
    run_block(step, c.num_hidden_layers + stage);
  const std::span<float> hidden = step.floats(step.num_rows() * c.hidden_size);
  const std::span<const float> normed = collapse_and_norm(step, step.pre, model.draft.norm, hidden);

  const auto drafts = static_cast<int64_t>(batch[0].tokens.size());
  constexpr int64_t kTogether = Workspace::kChainsTogether;
  for (int64_t at = 0; at < count; at += kTogether) {
    const ArenaScope of_chains(work.arena());
    const auto together = static_cast<size_t>(std::min(kTogether, count - at));
    const auto row = static_cast<size_t>(at * block * c.hidden_size);
    const Chains chains{batch.subspan(static_cast<size_t>(at), together),
                        first + static_cast<size_t>(at), hidden.subspan(row), normed.subspan(row)};
    const std::span<float> logits = base_logits(step, chains, drafts);
    for (int64_t k = 0; k < drafts; ++k) choose_drafts(step, chains, k, logits, drafts, pick);
  }
}

}  // namespace stoker
