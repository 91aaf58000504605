// What a piece of work is: for products a panel of 64 x 2048 weights with the rows of the item, for
// index scores a token's 32 heads with 4096 keys, for the rest the attention of a token with 64
// heads of 512 over 640 keys. Weights are read front to back from memory that is larger than the
// caches, as in a step.
#include "kernels/tune.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/arena.h"
#include "base/machine.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

namespace stoker::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPasses = 3;         // over all items, so that what disturbs one meets few rounds
constexpr int kRounds = 7;            // of an item in a pass
constexpr size_t kLeastRounds = 3;    // or nothing is said
constexpr double kClearly = 0.97;     // of the time of what is there, to replace it
constexpr int64_t kCols = 2048;       // of a panel
constexpr int64_t kPanelsOfOne = 64;  // of a run, for each thread, with one row

std::vector<float> random_values(int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& value : out) value = uniform(random);
  return out;
}

// Random bytes that are codes and scales of every format, none of them NaN or out of range.
class RandomWeights {
 public:
  RandomWeights(WorkerPool& pool, int64_t bytes)
      : arena_(bytes), data_(arena_.take<uint8_t>(bytes)) {
    constexpr int64_t kPiece = int64_t{1} << 20;
    constexpr uint64_t kMask = 0x3737373737373737;
    pool.run((bytes + kPiece - 1) / kPiece, [&](int64_t piece, int /*worker*/) {
      std::mt19937_64 random(static_cast<uint64_t>(piece));
      for (int64_t at = piece * kPiece; at < std::min(bytes, (piece + 1) * kPiece); at += 8) {
        const uint64_t value = random() & kMask;
        std::memcpy(data_.data() + at, &value, std::min<size_t>(8, data_.size() - at));
      }
    });
  }

  const uint8_t* data() const { return data_.data(); }
  int64_t bytes() const { return static_cast<int64_t>(data_.size()); }

 private:
  Arena arena_;
  std::span<uint8_t> data_;
};

class ProductWork {
 public:
  ProductWork(WorkerPool& pool, const RandomWeights& weights, const PlanItem& item)
      : pool_(pool),
        weights_(weights),
        item_(item),
        panel_bytes_(packed_size(item.format, 1, kCols).data),
        num_panels_(pool.num_threads() * std::max<int64_t>(4, kPanelsOfOne / item.rows)),
        y_(static_cast<size_t>(pool.num_threads() * item.rows * kPanelRows)) {
    const std::vector<float> x = random_values(item.rows * kCols);
    for (const bool pairs : {false, true}) {
      std::vector<float>& to = arranged_[static_cast<size_t>(pairs)];
      to.resize(static_cast<size_t>(arranged_floats(item.format, pairs, item.rows, kCols)));
      for (int64_t row = 0; row < item.rows; ++row)
        arrange(item.format, pairs, x.data() + row * kCols, kCols, row, item.rows, to.data());
    }
  }

  int64_t num_pieces() const { return num_panels_; }

  void run(const Kernels& kernels) {
    const int64_t num_stored = weights_.bytes() / panel_bytes_;
    const float* x = arranged_[static_cast<size_t>(kernels.bf16_pairs)].data();
    pool_.run(num_panels_, [&](int64_t piece, int worker) {
      const int64_t panel = (first_ + piece) % num_stored;
      kernels.panel({item_.format,
                     weights_.data() + panel * panel_bytes_,
                     weights_.data(),
                     kCols,
                     {x, item_.rows, item_.rows, nullptr},
                     y_.data() + worker * item_.rows * kPanelRows,
                     kPanelRows,
                     kPanelRows});
    });
    first_ += num_panels_;
  }

 private:
  WorkerPool& pool_;
  const RandomWeights& weights_;
  const PlanItem item_;
  const int64_t panel_bytes_;
  const int64_t num_panels_;
  int64_t first_ = 0;                           // panel of the next run
  std::array<std::vector<float>, 2> arranged_;  // without and with bf16_pairs
  std::vector<float> y_;
};

// Records of random rows, one after the other, and where each one is.
class Records {
 public:
  Records(int64_t count, int64_t dim, int64_t bytes,
          void (*encode)(const float*, int64_t, uint8_t*))
      : data_(static_cast<size_t>(count * bytes)) {
    const std::vector<float> x = random_values(dim + count);
    for (int64_t i = 0; i < count; ++i) {
      encode(x.data() + i, dim, data_.data() + i * bytes);
      places_.push_back(data_.data() + i * bytes);
    }
  }

  const uint8_t* const* places() const { return places_.data(); }
  int64_t count() const { return static_cast<int64_t>(places_.size()); }

 private:
  std::vector<uint8_t> data_;
  std::vector<const uint8_t*> places_;
};

class IndexWork {
 public:
  explicit IndexWork(WorkerPool& pool)
      : pool_(pool),
        keys_(4096, kDim, index_record_bytes(kDim), encode_index),
        head_weights_(random_values(kHeads)),
        scratch_floats_(index_scratch_floats(1, kHeads, kDim)),
        scratch_(static_cast<size_t>(pool.num_threads() * scratch_floats_)),
        scores_(static_cast<size_t>(pool.num_threads() * keys_.count())) {
    const std::vector<float> q = random_values(kHeads * kDim);
    for (const bool pairs : {false, true}) {
      std::vector<float>& to = arranged_[static_cast<size_t>(pairs)];
      to.resize(static_cast<size_t>(arranged_floats(WeightFormat::kFp4Panel, pairs, kHeads, kDim)));
      for (int64_t head = 0; head < kHeads; ++head) {
        arrange(WeightFormat::kFp4Panel, pairs, q.data() + head * kDim, kDim, head, kHeads,
                to.data());
      }
    }
  }

  int64_t num_pieces() const { return pool_.num_threads() * int64_t{2}; }

  void run(const Kernels& kernels) {
    const float* q = arranged_[static_cast<size_t>(kernels.bf16_pairs)].data();
    pool_.run(num_pieces(), [&](int64_t /*piece*/, int worker) {
      kernels.index_scores({{q, kHeads, kHeads, nullptr},
                            head_weights_.data(),
                            1,
                            kHeads,
                            kDim,
                            keys_.places(),
                            keys_.count(),
                            scratch_.data() + worker * scratch_floats_,
                            scores_.data() + worker * keys_.count(),
                            keys_.count()});
    });
  }

 private:
  static constexpr int32_t kHeads = 32;
  static constexpr int64_t kDim = 128;

  WorkerPool& pool_;
  const Records keys_;
  const std::vector<float> head_weights_;
  const int64_t scratch_floats_;
  std::vector<float> scratch_;  // for each worker
  std::vector<float> scores_;   // for each worker
  std::array<std::vector<float>, 2> arranged_;
};

class AttendWork {
 public:
  explicit AttendWork(WorkerPool& pool)
      : pool_(pool),
        window_(128, kDim, window_record_bytes(kDim), encode_window),
        latents_(512, kDim, latent_record_bytes(kDim), encode_latent),
        q_(random_values(kHeads * kDim)),
        sink_(random_values(kHeads)),
        scratch_floats_(attend_scratch_floats(kHeads, kDim, window_.count() + latents_.count())),
        scratch_(static_cast<size_t>(pool.num_threads() * scratch_floats_)),
        out_(static_cast<size_t>(pool.num_threads() * kHeads * kDim)) {
    for (float& value : q_) value = bf16_round(value);
  }

  int64_t num_pieces() const { return pool_.num_threads() * int64_t{2}; }

  void run(const Kernels& kernels) {
    pool_.run(num_pieces(), [&](int64_t /*piece*/, int worker) {
      kernels.attend({q_.data(),
                      {window_.places(), window_.count(), latents_.places(), latents_.count()},
                      sink_.data(),
                      kHeads,
                      kDim,
                      0.044F,
                      scratch_.data() + worker * scratch_floats_,
                      out_.data() + worker * kHeads * kDim});
    });
  }

 private:
  static constexpr int32_t kHeads = 64;
  static constexpr int64_t kDim = 512;

  WorkerPool& pool_;
  const Records window_;
  const Records latents_;
  std::vector<float> q_;
  const std::vector<float> sink_;
  const int64_t scratch_floats_;
  std::vector<float> scratch_;  // for each worker
  std::vector<float> out_;      // for each worker
};

// Nanoseconds of each round, by level.
using Samples = std::array<std::vector<int64_t>, kNumLevels>;

// What else runs on the machine only makes slower: of the rounds the faster ones count.
int64_t lower_quartile(std::vector<int64_t> values) {
  const auto at = values.begin() + static_cast<int64_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Rounds in which each level has its turn, after one that warms up, until the time is over.
template <class Work>
void measure(Work&& work, const std::vector<Isa>& levels, Clock::time_point end, Samples& found) {
  for (int round = 0; round <= kRounds && Clock::now() < end; ++round) {
    for (const Isa isa : levels) {
      const Clock::time_point begin = Clock::now();
      work.run(kernels_of(isa));
      const std::chrono::nanoseconds took = Clock::now() - begin;
      const int64_t each = std::max<int64_t>(1, took.count() / work.num_pieces());
      if (round > 0) found[static_cast<size_t>(isa)].push_back(each);
    }
  }
}

void measure_item(WorkerPool& pool, const RandomWeights& weights, const PlanItem& item,
                  const std::vector<Isa>& levels, Clock::time_point end, Samples& found) {
  if (item.rows > 0) {
    measure(ProductWork(pool, weights, item), levels, end, found);
  } else if (item.operation == "index_scores") {
    measure(IndexWork(pool), levels, end, found);
  } else {
    measure(AttendWork(pool), levels, end, found);
  }
}

MeasuredLevel level_by(const Samples& found, Isa otherwise) {
  std::array<int64_t, kNumLevels> ns{};
  for (size_t level = 0; level < kNumLevels; ++level) {
    if (found[level].size() >= kLeastRounds) ns[level] = lower_quartile(found[level]);
  }
  return {choose_level(ns, otherwise), ns};
}

}  // namespace

MeasuredPlan measure_plan(WorkerPool& pool, const KernelPlan& start,
                          std::chrono::nanoseconds budget, int64_t memory_bytes,
                          const TuneProgress& progress) {
  const Clock::time_point end = Clock::now() + budget;
  const FlushDenormals flush;
  const std::vector<Isa> levels = usable_levels();
  const RandomWeights weights(pool, memory_bytes);
  MeasuredPlan plan = unmeasured(start);
  std::vector<Samples> found(plan.size());
  for (size_t done = 0; done < kPasses * plan.size() && Clock::now() < end; ++done) {
    if (progress) progress(static_cast<double>(done) / static_cast<double>(kPasses * plan.size()));
    // From the last one: steps spend least on the first formats.
    const size_t item_idx = plan.size() - 1 - done % plan.size();
    measure_item(pool, weights, plan_item(item_idx), levels, end, found[item_idx]);
  }
  for (size_t i = 0; i < plan.size(); ++i) plan[i] = level_by(found[i], plan[i].chosen);
  return plan;
}

int64_t tune_memory_bytes() {
  constexpr int64_t kLeast = int64_t{8} << 20;
  constexpr int64_t kMost = int64_t{256} << 20;
  return std::clamp(usable_memory_bytes() / 16, kLeast, kMost);
}

Isa choose_level(const std::array<int64_t, kNumLevels>& ns, Isa otherwise) {
  size_t best = static_cast<size_t>(otherwise);
  double least = ns[best] > 0 ? static_cast<double>(ns[best]) * kClearly : 0;
  for (size_t level = 0; level < ns.size(); ++level) {
    if (ns[level] == 0 || (least > 0 && static_cast<double>(ns[level]) >= least)) continue;
    best = level;
    least = static_cast<double>(ns[level]);
  }
  return static_cast<Isa>(best);
}

}  // namespace stoker::kernels
