// What a piece of work is: for products a panel of 64 x 2048 weights with the rows of the item, for
// index scores a token's 32 heads with 4096 keys, for the rest the attention of a token with 64
// heads of 512 over 640 keys. Weights are read front to back from memory that is larger than the
// caches, as in a step.
#include "kernels/tune.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "base/arena.h"
#include "base/machine.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

namespace stoker::kernels {
namespace {

using Clock = std::chrono::steady_clock;
using Times = std::array<int64_t, kNumLevels>;

constexpr int kRounds = 7;            // medians of them
constexpr int kLeastRounds = 3;       // or nothing is said
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
        scratch_(static_cast<size_t>(pool.num_threads() * kScratch)),
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
                            scratch_.data() + worker * kScratch,
                            scores_.data() + worker * keys_.count(),
                            keys_.count()});
    });
  }

 private:
  static constexpr int32_t kHeads = 32;
  static constexpr int64_t kDim = 128;
  static constexpr int64_t kScratch = (kDim + kHeads) * 64;  // index_scratch_floats(1, ...)

  WorkerPool& pool_;
  const Records keys_;
  const std::vector<float> head_weights_;
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

int64_t median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Medians of rounds in which each level has its turn, after one that warms up. None where the time
// is over before there are enough.
template <class Work>
std::optional<Times> measure(Work&& work, const std::vector<Isa>& levels, Clock::time_point end) {
  std::array<std::vector<int64_t>, kNumLevels> found;
  for (int round = 0; round <= kRounds; ++round) {
    if (Clock::now() >= end) {
      if (round <= kLeastRounds) return std::nullopt;
      break;
    }
    for (const Isa isa : levels) {
      const Clock::time_point begin = Clock::now();
      work.run(kernels_of(isa));
      const std::chrono::nanoseconds took = Clock::now() - begin;
      const int64_t each = std::max<int64_t>(1, took.count() / work.num_pieces());
      if (round > 0) found[static_cast<size_t>(isa)].push_back(each);
    }
  }
  Times times{};
  for (const Isa isa : levels)
    times[static_cast<size_t>(isa)] = median(std::move(found[static_cast<size_t>(isa)]));
  return times;
}

std::optional<Times> measure_item(WorkerPool& pool, const RandomWeights& weights,
                                  const PlanItem& item, const std::vector<Isa>& levels,
                                  Clock::time_point end) {
  if (Clock::now() >= end) return std::nullopt;
  if (item.rows > 0) return measure(ProductWork(pool, weights, item), levels, end);
  if (item.operation == "index_scores") return measure(IndexWork(pool), levels, end);
  return measure(AttendWork(pool), levels, end);
}

}  // namespace

MeasuredPlan measure_plan(WorkerPool& pool, const KernelPlan& start,
                          std::chrono::nanoseconds budget, int64_t memory_bytes,
                          const TuneProgress& progress) {
  const Clock::time_point end = Clock::now() + budget;
  const FlushDenormals flush;
  MeasuredPlan plan = unmeasured(start);
  const std::vector<Isa> levels = usable_levels();
  const RandomWeights weights(pool, memory_bytes);
  // From the last one: steps spend least on the first formats.
  for (size_t i = plan.size(); i-- > 0;) {
    if (progress) progress(1 - static_cast<double>(i + 1) / static_cast<double>(plan.size()));
    const auto times = measure_item(pool, weights, plan_item(i), levels, end);
    if (!times) break;
    plan[i] = {choose_level(*times, plan[i].chosen), *times};
  }
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
