// Every level that this processor has against kernels/ref, bit for bit.
#include "kernels/cpu/levels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/worker_pool.h"
#include "kernels/attend.h"
#include "kernels/choose.h"
#include "kernels/index.h"
#include "kernels/moe.h"
#include "kernels/product.h"
#include "support/golden.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

namespace stoker::kernels {
namespace {

using testing::same_bits;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint8_t byte() { return static_cast<uint8_t>(engine_()); }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  float normal() { return normal_(engine_); }
  std::vector<float> normals(int64_t n) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& value : out) value = normal();
    return out;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

// A matrix with random codes, and what owns them.
struct Stored {
  std::vector<uint8_t> data;
  std::vector<uint8_t> scale;
  Weight weight;
};

// Every code but NaN; scales to the ends of what can be packed.
Stored random_matrix(WeightFormat format, int64_t rows, int64_t cols, Random& random) {
  Stored out;
  const int64_t tiles = (rows + 31) / 32 * (cols / 32);
  const auto scales = [&](int64_t n, int least) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t e =
          random.below(8) == 0 ? least + random.below(192 - least) : 120 + random.below(10);
      out.scale.push_back(static_cast<uint8_t>(e));
    }
  };
  const auto append = [&out](auto value) {
    uint8_t bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out.data.insert(out.data.end(), bytes, bytes + sizeof value);
  };
  for (int64_t i = 0; i < rows * cols; ++i) {
    switch (format) {
      case WeightFormat::kFp4Group:
        if (i % 2 == 0) append(random.byte());
        break;
      case WeightFormat::kFp8Tile: {
        const uint8_t code = random.byte();
        append((code & 0x7F) == 0x7F ? uint8_t{0x7E} : code);
        break;
      }
      case WeightFormat::kBf16:
        append(bf16_encode(random.normal()));
        break;
      default:
        append(random.normal());
    }
  }
  if (format == WeightFormat::kFp4Group) scales(rows * (cols / 32), kLeastFp4Scale);
  if (format == WeightFormat::kFp8Tile) scales(tiles, kLeastFp8Scale);
  out.weight = {format, rows, cols, out.data.data(), out.scale.data()};
  return out;
}

Stored pack(const Weight& from, bool parts) {
  Stored out;
  out.weight = {packed_format(from.format, parts), from.rows, from.cols, nullptr, nullptr};
  const PackedSize size = packed_size(out.weight.format, from.rows, from.cols);
  out.data.resize(static_cast<size_t>(size.data));
  out.scale.resize(static_cast<size_t>(size.scale));
  out.weight.data = out.data.data();
  out.weight.scale = out.scale.data();
  const PackedSize each = pack_piece_size(out.weight);
  for (int64_t piece = 0; piece < num_pack_pieces(out.weight); ++piece) {
    pack_piece(from, out.weight, piece, out.data.data() + piece * each.data,
               out.scale.data() + piece * each.scale);
  }
  return out;
}

std::vector<float> arranged(WeightFormat format, const Kernels& kernels,
                            const std::vector<float>& x, int64_t rows, int64_t cols) {
  std::vector<float> out(
      static_cast<size_t>(arranged_floats(format, kernels.bf16_pairs, rows, cols)));
  for (int64_t row = 0; row < rows; ++row)
    arrange(format, kernels.bf16_pairs, x.data() + row * cols, cols, row, rows, out.data());
  return out;
}

// The packed matrix times x, panel by panel.
std::vector<float> panel_product(const Kernels& kernels, const Weight& w,
                                 const std::vector<float>& x, int64_t rows) {
  const std::vector<float> ready = arranged(w.format, kernels, x, rows, w.cols);
  const ArrangedRows x_rows{ready.data(), rows, rows, nullptr};
  std::vector<float> y(static_cast<size_t>(rows * w.rows), 7.0F);
  const PackedSize one = packed_size(w.format, 1, w.cols);
  for (int64_t panel = 0; panel < num_panels(w.rows); ++panel) {
    kernels.panel({w.format, w.data + panel * one.data, w.scale + panel * one.scale, w.cols, x_rows,
                   y.data() + panel * kPanelRows, w.rows,
                   std::min(kPanelRows, w.rows - panel * kPanelRows)});
  }
  return y;
}

std::vector<float> plain_product(const Weight& w, const std::vector<float>& x, int64_t rows) {
  WorkerPool pool(1);
  std::vector<float> y(static_cast<size_t>(rows * w.rows));
  product(pool, {x.data(), rows, w.cols}, w, y.data(), w.rows);
  return y;
}

class LevelsTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    const std::vector<Isa> usable = usable_levels();
    if (std::find(usable.begin(), usable.end(), GetParam()) == usable.end())
      GTEST_SKIP() << "this processor does not have " << isa_name(GetParam());
    kernels_ = &kernels_of(GetParam());
  }

  const Kernels* kernels_ = nullptr;
  FlushDenormals flush_;
};

struct Shape {
  int64_t rows, cols;
};

TEST_P(LevelsTest, ProductsOfPanels) {
  Random random(1);
  for (const WeightFormat format :
       {WeightFormat::kFp4Group, WeightFormat::kFp8Tile, WeightFormat::kBf16, WeightFormat::kF32}) {
    for (const Shape shape : {Shape{1, 32}, {24, 64}, {64, 96}, {100, 320}, {192, 2304}}) {
      const Stored w = random_matrix(format, shape.rows, shape.cols, random);
      const Stored packed = pack(w.weight, false);
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 64, 193}) {
        if (rows > 64 && shape.cols > 96) continue;
        const std::vector<float> x = random.normals(rows * shape.cols);
        EXPECT_TRUE(same_bits(panel_product(*kernels_, packed.weight, x, rows),
                              plain_product(w.weight, x, rows)))
            << "format " << static_cast<int>(format) << " [" << shape.rows << ", " << shape.cols
            << "], " << rows << " rows";
      }
    }
  }
}

TEST_P(LevelsTest, ProductsWithAnOddColumn) {
  Random random(2);
  const Stored w = random_matrix(WeightFormat::kBf16, 70, 33, random);
  const Stored packed = pack(w.weight, false);
  for (const int64_t rows : {1, 3}) {
    const std::vector<float> x = random.normals(rows * 33);
    EXPECT_TRUE(same_bits(panel_product(*kernels_, packed.weight, x, rows),
                          plain_product(w.weight, x, rows)));
  }
}

// Every code of both formats with every scale that packs.
TEST_P(LevelsTest, EveryCodeWithEveryScale) {
  for (const WeightFormat format : {WeightFormat::kFp4Group, WeightFormat::kFp8Tile}) {
    const bool fp4 = format == WeightFormat::kFp4Group;
    const int64_t codes = fp4 ? 16 : 256;
    for (int e = fp4 ? kLeastFp4Scale : kLeastFp8Scale; e <= kTopScale; ++e) {
      Stored w;
      w.data.assign(static_cast<size_t>(codes * 32 / (fp4 ? 2 : 1)), 0);
      w.scale.assign(static_cast<size_t>(fp4 ? codes : codes / 32), static_cast<uint8_t>(e));
      for (int64_t row = 0; row < codes; ++row) {  // in column 1, beside zeros
        const auto code = static_cast<uint8_t>(!fp4 && (row & 0x7F) == 0x7F ? 0 : row);
        w.data[static_cast<size_t>(fp4 ? row * 16 : row * 32 + 1)] =
            static_cast<uint8_t>(fp4 ? code << 4 : code);
      }
      w.weight = {format, codes, 32, w.data.data(), w.scale.data()};
      ASSERT_TRUE(can_pack(w.weight));
      const Stored packed = pack(w.weight, false);
      const std::vector<float> x(32, 0.75F);
      std::vector<float> want = plain_product(w.weight, x, 1);
      EXPECT_TRUE(same_bits(panel_product(*kernels_, packed.weight, x, 1), want)) << e;
    }
  }
}

// Rows of some, in any order and more than once.
TEST_P(LevelsTest, ProductsOfChosenRows) {
  Random random(8);
  for (const WeightFormat format :
       {WeightFormat::kFp4Group, WeightFormat::kFp8Tile, WeightFormat::kBf16}) {
    const Stored w = random_matrix(format, 64, 160, random);
    const Stored packed = pack(w.weight, false);
    const std::vector<float> x = random.normals(9 * 160);
    const std::vector<float> ready = arranged(packed.weight.format, *kernels_, x, 9, 160);
    for (const std::vector<int32_t>& index :
         {std::vector<int32_t>{7}, {3, 1}, {8, 0, 8, 2, 4, 1, 0}}) {
      const auto count = static_cast<int64_t>(index.size());
      std::vector<float> y(static_cast<size_t>(count * 64));
      kernels_->panel({packed.weight.format,
                       packed.data.data(),
                       packed.scale.data(),
                       160,
                       {ready.data(), 9, count, index.data()},
                       y.data(),
                       64,
                       64});
      for (int64_t i = 0; i < count; ++i) {
        const auto first = x.begin() + index[static_cast<size_t>(i)] * 160;
        const std::vector<float> want = plain_product(w.weight, {first, first + 160}, 1);
        EXPECT_TRUE(same_bits({y.begin() + i * 64, y.begin() + (i + 1) * 64}, want)) << i;
      }
    }
  }
}

TEST_P(LevelsTest, ProductsInParts) {
  Random random(3);
  for (const Shape shape : {Shape{24, 256}, {3, 16}, {8, 20480}}) {
    const Stored w = random_matrix(WeightFormat::kF32, shape.rows, shape.cols, random);
    const Stored packed = pack(w.weight, true);
    for (const int64_t rows : {1, 2, 5}) {
      const std::vector<float> x = random.normals(rows * shape.cols);
      std::vector<float> turned(x.size());
      for (int64_t r = 0; r < rows; ++r)
        arrange_parts(x.data() + r * shape.cols, shape.cols, turned.data() + r * shape.cols);
      std::vector<float> y(static_cast<size_t>(rows * shape.rows));
      kernels_->parts(
          {packed.data.data(), shape.rows, shape.cols, turned.data(), rows, y.data(), shape.rows});
      WorkerPool pool(1);
      std::vector<float> want(y.size());
      product_parts(pool, {x.data(), rows, shape.cols}, w.weight, want.data(), shape.rows);
      EXPECT_TRUE(same_bits(y, want)) << shape.rows << " " << shape.cols << " " << rows;
    }
  }
}

// n random records, one behind the other.
std::vector<uint8_t> random_records(int64_t n, int64_t dim, int64_t bytes, Random& random,
                                    void (*encode)(const float*, int64_t, uint8_t*)) {
  std::vector<uint8_t> out(static_cast<size_t>(n * bytes));
  for (int64_t i = 0; i < n; ++i) {
    std::vector<float> x = random.normals(dim);
    const float size = std::exp(8.0F * random.normal());
    for (float& value : x) value *= size;
    if (i % 7 == 3) x[static_cast<size_t>(random.below(dim))] = -0.0F;
    encode(x.data(), dim, out.data() + i * bytes);
  }
  return out;
}

std::vector<const uint8_t*> pointers(const std::vector<uint8_t>& records, int64_t bytes) {
  std::vector<const uint8_t*> out;
  for (size_t at = 0; at < records.size(); at += static_cast<size_t>(bytes))
    out.push_back(records.data() + at);
  return out;
}

TEST_P(LevelsTest, Attention) {
  Random random(4);
  struct Case {
    int32_t heads;
    int64_t dim, window, latents;
  };
  for (const Case& at : {Case{64, 512, 128, 512},
                         {1, 32, 1, 0},
                         {4, 64, 5, 3},
                         {16, 96, 63, 2},
                         {20, 64, 64, 1},
                         {33, 160, 0, 65}}) {
    const auto window =
        random_records(at.window, at.dim, window_record_bytes(at.dim), random, encode_window);
    const auto latents =
        random_records(at.latents, at.dim, latent_record_bytes(at.dim), random, encode_latent);
    const auto window_at = pointers(window, window_record_bytes(at.dim));
    const auto latents_at = pointers(latents, latent_record_bytes(at.dim));
    std::vector<float> q = random.normals(at.heads * at.dim);
    for (float& value : q) value = bf16_round(value * 0.01F);
    const std::vector<float> sink = random.normals(at.heads);
    std::vector<float> scratch(
        static_cast<size_t>(attend_scratch_floats(at.heads, at.dim, at.window + at.latents)));
    std::vector<float> out(q.size());
    AttendJob job;
    job.q = q.data();
    job.keys = {window_at.data(), at.window, latents_at.data(), at.latents};
    job.sink = sink.data();
    job.heads = at.heads;
    job.dim = at.dim;
    job.scale = static_cast<float>(std::pow(static_cast<double>(at.dim), -0.5));
    job.scratch = scratch.data();
    job.out = out.data();
    kernels_->attend(job);

    std::vector<float> keys(static_cast<size_t>((at.window + at.latents) * at.dim));
    float* key = keys.data();
    for (const uint8_t* record : window_at) decode_window(record, at.dim, key), key += at.dim;
    for (const uint8_t* record : latents_at) decode_latent(record, at.dim, key), key += at.dim;
    std::vector<float> want(q.size());
    std::vector<float> memory;
    attend(q.data(), keys.data(), at.window + at.latents, sink.data(), at.heads, at.dim, memory,
           want.data());
    EXPECT_TRUE(same_bits(out, want)) << at.heads << " heads, " << at.window + at.latents;
  }
}

// Also of sizes that a panel cannot hold, where the sign of a zero sum could show, and of NaN.
TEST_P(LevelsTest, IndexScores) {
  Random random(5);
  struct Case {
    int64_t rows;
    int32_t heads;
    int64_t dim, keys;
    float key_size = 1, query_size = 1;
  };
  for (const Case& at : {Case{1, 32, 128, 200},
                         {16, 32, 128, 64},
                         {3, 2, 32, 1},
                         {1, 1, 64, 77},
                         {2, 5, 160, 130},
                         {2, 4, 128, 130, 0x1p-100F},
                         {2, 4, 128, 130, 0x1p100F},
                         {2, 4, 128, 130, 1, 0x1p-60F},
                         {2, 4, 128, 130, 0x1p-58F, 0x1p-70F},
                         {1, 2, 64, 70, std::numeric_limits<float>::quiet_NaN()}}) {
    std::vector<uint8_t> records;
    for (int64_t i = 0; i < at.keys; ++i) {
      std::vector<float> key = random.normals(at.dim);
      for (float& value : key) value *= i % 3 == 0 ? at.key_size : 1;
      records.resize(records.size() + static_cast<size_t>(index_record_bytes(at.dim)));
      encode_index(key.data(), at.dim, records.data() + i * index_record_bytes(at.dim));
    }
    const auto keys = pointers(records, index_record_bytes(at.dim));
    std::vector<float> q = random.normals(at.rows * at.heads * at.dim);
    for (float& value : q) value = bf16_round(value * at.query_size);
    const std::vector<float> weights = random.normals(at.rows * at.heads);
    const std::vector<float> ready =
        arranged(WeightFormat::kFp4Panel, *kernels_, q, at.rows * at.heads, at.dim);
    std::vector<float> scratch(
        static_cast<size_t>(index_scratch_floats(at.rows, at.heads, at.dim)));
    std::vector<float> scores(static_cast<size_t>(at.rows * at.keys));
    IndexJob job;
    job.q = {ready.data(), at.rows * at.heads, at.rows * at.heads, nullptr};
    job.weights = weights.data();
    job.rows = at.rows;
    job.heads = at.heads;
    job.dim = at.dim;
    job.keys = keys.data();
    job.n = at.keys;
    job.scratch = scratch.data();
    job.scores = scores.data();
    job.stride = at.keys;
    kernels_->index_scores(job);
    std::vector<float> want(scores.size());
    index_scores({q.data(), weights.data(), at.rows, at.heads, at.dim}, records.data(), at.keys,
                 want.data(), at.keys);
    EXPECT_TRUE(same_bits(scores, want)) << at.rows << " rows, " << at.keys << " keys of size "
                                         << at.key_size << ", queries of size " << at.query_size;
  }
}

// In every order, with ties, infinities and NaN, against the plain choice.
TEST_P(LevelsTest, ChoiceOfTheBest) {
  Random random(9);
  for (const int64_t n : {0, 1, 63, 64, 65, 1000, 20000}) {
    for (int order = 0; order < 4; ++order) {
      std::vector<float> scores;
      for (int64_t i = 0; i < n; ++i) {
        const auto rising = static_cast<float>(i / 3);
        const float drawn = random.normal();
        scores.push_back(order == 0   ? drawn
                         : order == 1 ? rising
                         : order == 2 ? -rising
                                      : std::round(drawn * 4));
        if (random.below(100) == 0) scores.back() = std::nanf("");
        if (random.below(100) == 0) scores.back() = -std::numeric_limits<float>::infinity();
        if (random.below(100) == 0) scores.back() = -0.0F;
      }
      for (const int64_t k : {1, 7, 512, 3000}) {
        std::vector<float> values(static_cast<size_t>(choice_room(std::min(k, n))));
        std::vector<int32_t> list(values.size());
        std::vector<int32_t> picked(values.size());
        const ChoiceScratch scratch{values.data(), list.data(), picked.data()};
        std::vector<int32_t> found(static_cast<size_t>(n));
        found.resize(static_cast<size_t>(
            choose_best(*kernels_, scores.data(), n, k, scratch, found.data())));
        std::vector<int32_t> want(static_cast<size_t>(top_list_size(n, k)));
        want.resize(static_cast<size_t>(top_indices(scores.data(), n, k, want.data())));
        EXPECT_EQ(found, want) << n << " scores in order " << order << ", " << k;

        std::vector<float> best(static_cast<size_t>(n / 8 + 1));
        std::vector<int32_t> blocks(best.size());
        blocks.resize(static_cast<size_t>(
            choose_blocks(*kernels_, scores.data(), n, k, 8, scratch, best.data(), blocks.data())));
        std::vector<int32_t> want_blocks(best.size());
        want_blocks.resize(static_cast<size_t>(
            candidate_blocks(scores.data(), n, k, 8, best.data(), want_blocks.data())));
        EXPECT_EQ(blocks, want_blocks) << n << " scores in order " << order << ", " << k;
      }
    }
  }
}

TEST_P(LevelsTest, SwigluOfARow) {
  Random random(9);
  const float special[] = {0.0F, -0.0F, 10,     -10,      87.5F,    -87.5F,
                           100,  -100,  1e-38F, INFINITY, -INFINITY};
  for (const int64_t n : {1, 7, 16, 33, 192}) {
    std::vector<float> gate, up;
    for (int64_t i = 0; i < n; ++i) {
      gate.push_back(random.below(4) == 0 ? special[random.below(11)] : 8 * random.normal());
      up.push_back(random.below(4) == 0 ? special[random.below(11)] : 8 * random.normal());
    }
    gate.front() = NAN;
    for (const float limit : {0.0F, 10.0F}) {
      const float scale = 0.37F;
      for (const float* factor : {static_cast<const float*>(nullptr), &scale}) {
        std::vector<float> expected(gate.size());
        swiglu(gate.data(), up.data(), n, limit, factor, expected.data());
        std::vector<float> found = gate;  // in place
        kernels_of(GetParam()).swiglu(found.data(), up.data(), n, limit, factor, found.data());
        for (size_t i = 0; i < found.size(); ++i) {
          if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
          EXPECT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
              << "gate " << gate[i] << ", up " << up[i] << ", limit " << limit;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LevelsTest,
                         ::testing::Values(Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& param) { return std::string(isa_name(param.param)); });

TEST(Panels, KeepEveryValue) {
  Random random(6);
  for (const WeightFormat format :
       {WeightFormat::kFp4Group, WeightFormat::kFp8Tile, WeightFormat::kBf16, WeightFormat::kF32}) {
    for (const bool parts : {false, true}) {
      if (parts && format != WeightFormat::kF32) continue;
      const Stored w = random_matrix(format, 70, 96, random);
      const Stored packed = pack(w.weight, parts);
      std::vector<float> want(96);
      std::vector<float> found(96);
      for (int64_t row = 0; row < 70; ++row) {
        decode_row(w.weight, row, want.data());
        decode_row(packed.weight, row, found.data());
        EXPECT_EQ(want, found) << row;  // -0 equals 0
      }
    }
  }
}

TEST(Panels, ScalesThatCannotBePackedAreSeen) {
  Random random(7);
  Stored w = random_matrix(WeightFormat::kFp4Group, 64, 64, random);
  EXPECT_TRUE(can_pack(w.weight));
  w.scale[5] = 192;
  EXPECT_FALSE(can_pack(w.weight));
  std::fill_n(w.data.begin() + 5 * 16, 16, uint8_t{0x80});  // zeros of both signs
  EXPECT_TRUE(can_pack(w.weight));
}

}  // namespace
}  // namespace stoker::kernels
