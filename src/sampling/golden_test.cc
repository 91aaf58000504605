// The choice of tokens against tests/data/sampling (tools/reference/make_sampling_golden.py) and
// tests/data/arith (make_arith_golden.py), bit for bit: the plain twin, and every level that this
// processor has.
#include "support/golden.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/worker_pool.h"
#include "sampling/draw.h"
#include "sampling/plain.h"
#include "sampling/sampler.h"

namespace stoker::sampling {
namespace {

using testing::GoldenFile;
using testing::same_bits;

// One list of each case, one after the other.
template <class T>
class Lists {
 public:
  Lists(std::vector<T> values, const std::vector<int64_t>& counts) : values_(std::move(values)) {
    for (const int64_t count : counts) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count);
  }
  std::vector<T> of(size_t i) const {
    return {values_.begin() + (i == 0 ? 0 : ends_[i - 1]), values_.begin() + ends_[i]};
  }

 private:
  std::vector<T> values_;
  std::vector<int64_t> ends_;
};

std::vector<int32_t> narrow(const std::vector<int64_t>& ids) {
  return {ids.begin(), ids.end()};
}

// One choice of the golden file.
struct Case {
  std::vector<float> logits;
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;
  Params params;
  uint64_t seed = 0;
  int32_t token = 0;
};

std::vector<Case> read_cases(const GoldenFile& golden) {
  const auto numbers = golden.i64("numbers");
  const auto logits = golden.f32("logits");
  const auto ids = [&golden](const std::string& name) {
    return Lists<int64_t>(golden.i64(name), golden.i64(name + ".counts"));
  };
  const auto prompt = ids("prompt");
  const auto answer = ids("answer");
  const auto allowed = ids("allowed");
  const auto ends = ids("ends");
  const auto bad = ids("bad");
  const auto bias_ids = ids("bias.ids");
  const Lists<float> bias_values(golden.f32("bias.values"), golden.i64("bias.values.counts"));
  std::vector<Case> cases;
  auto first = logits.begin();
  for (size_t i = 0; i < numbers.size() / 12; ++i) {
    const int64_t* n = numbers.data() + 12 * i;
    const auto real = [n](int at) { return std::bit_cast<double>(n[at]); };
    Case one;
    one.seed = static_cast<uint64_t>(n[0]);
    one.logits.assign(first, first + n[2]);
    first += n[2];
    one.token = static_cast<int32_t>(n[3]);
    one.prompt = narrow(prompt.of(i));
    one.answer = narrow(answer.of(i));
    EXPECT_EQ(static_cast<size_t>(n[1]), one.prompt.size() + one.answer.size());
    Params& params = one.params;
    params.top_k = static_cast<int32_t>(n[4]);
    params.min_tokens = static_cast<int32_t>(n[5]);
    params.temperature = real(6);
    params.top_p = real(7);
    params.min_p = real(8);
    params.penalties = {static_cast<float>(real(9)), static_cast<float>(real(10)),
                        static_cast<float>(real(11))};
    params.allowed = narrow(allowed.of(i));
    params.ends = narrow(ends.of(i));
    for (size_t k = 0; k < bias_ids.of(i).size(); ++k)
      params.bias.push_back({narrow(bias_ids.of(i))[k], bias_values.of(i)[k]});
    std::vector<int32_t> word;
    for (const int64_t id : bad.of(i)) {
      if (id > 0) word.push_back(static_cast<int32_t>(id - 1));
      if (id == 0) params.bad_words.push_back(std::exchange(word, {}));
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

class SamplingGolden : public ::testing::Test {
 protected:
  GoldenFile golden_{"tests/data/sampling/sampling.safetensors"};
  GoldenFile arith_{"tests/data/arith/arith.safetensors"};
};

TEST_F(SamplingGolden, ThePlainTwin) {
  const std::vector<Case> cases = read_cases(golden_);
  ASSERT_GE(cases.size(), 500U);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const auto x = plain::shaped(c.logits, c.params, c.prompt, c.answer);
    const NoiseSource source{c.seed, c.prompt.size() + c.answer.size()};
    EXPECT_EQ(plain::sample(x, source, c.params), c.token) << "case " << i;
  }
}

// The answer accepted token by token, or a part of it as a drafted run.
TEST_F(SamplingGolden, EveryLevel) {
  const std::vector<Case> cases = read_cases(golden_);
  for (const kernels::Isa isa : kernels::usable_levels()) {
    Scratch scratch(isa);
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      for (const size_t drafted : {size_t{0}, std::min<size_t>(c.answer.size(), 1 + i % 6)}) {
        Sampler sampler(c.params, c.seed, c.prompt);
        const std::span<const int32_t> answer(c.answer);
        for (const int32_t id : answer.first(answer.size() - drafted)) sampler.accept(id);
        const auto token = sampler.draw(c.logits, answer.last(drafted), scratch);
        ASSERT_TRUE(token) << token.error().message;
        EXPECT_EQ(*token, c.token)
            << "case " << i << ", " << drafted << " drafted, level " << kernels::isa_name(isa);
      }
    }
  }
}

// The logits of the golden script's function of that name.
std::vector<float> wide_logits(uint64_t number, int64_t kind) {
  constexpr uint64_t kWide = 129280;
  std::vector<float> x(kWide);
  for (uint64_t i = 0; i < kWide; ++i) {
    const uint64_t id = i + 1;
    const auto h = static_cast<uint32_t>((id * 2654435761U + number * 40503U) ^ (id >> 3));
    const float u = static_cast<float>(h >> 8) * 0x1p-24F;
    constexpr float kScales[] = {0.25F, 8, 60, 0};
    x[i] = kind == 3 ? std::floor(u * 4) : (u - 0.5F) * kScales[kind];
  }
  if (kind == 1) {
    x[(number * 7919 + 13) % kWide] += 30;
    x[(number * 104729 + 5) % kWide] += 29;
  }
  return x;
}

TEST_F(SamplingGolden, AtTheReleasedVocabulary) {
  const auto numbers = golden_.i64("wide.numbers");
  ASSERT_GE(numbers.size(), 8U * 24);
  for (size_t i = 0; i < numbers.size(); i += 8) {
    const int64_t* n = numbers.data() + i;
    const auto x = wide_logits(static_cast<uint64_t>(n[0]), n[7]);
    Params params;
    params.top_k = static_cast<int32_t>(n[3]);
    params.temperature = std::bit_cast<double>(n[4]);
    params.top_p = std::bit_cast<double>(n[5]);
    params.min_p = std::bit_cast<double>(n[6]);
    const NoiseSource source{7, static_cast<uint64_t>(n[1])};
    EXPECT_EQ(plain::sample(x, source, params), n[2]) << "case " << n[0];
    for (const kernels::Isa isa : kernels::usable_levels()) {
      Scratch scratch(isa);
      const KeepDenormals keep;
      const float most = *std::max_element(x.begin(), x.end());
      EXPECT_EQ(draw(x, most, source, params, scratch), n[2])
          << "case " << n[0] << ", level " << kernels::isa_name(isa);
    }
  }
}

TEST_F(SamplingGolden, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST_F(SamplingGolden, GumbelNoise) {
  const std::pair<uint64_t, uint64_t> cases[] = {
      {0, 0}, {1, 7}, {~uint64_t{0}, (uint64_t{1} << 33) + 5}, {choice_seed(1, 3), 1048575}};
  for (const auto& [seed, position] : cases) {
    std::vector<float> noise(707);
    gumbel({seed, position}, noise);
    const std::string name =
        "gumbel." + std::to_string(seed) + "." + std::to_string(position) + ".out";
    EXPECT_TRUE(same_bits(noise, arith_.f32(name))) << name;
    EXPECT_EQ(noise_of({seed, position}, 706), noise[706]);
  }
  EXPECT_EQ(choice_seed(5, 0), 5U);
}

TEST_F(SamplingGolden, Penalties) {
  auto logits = arith_.f32("penalise.x");
  std::vector<int32_t> counts;
  std::vector<uint8_t> seen;
  for (const float count : arith_.f32("penalise.counts"))
    counts.push_back(static_cast<int32_t>(count));
  for (const float flag : arith_.f32("penalise.in_prompt")) seen.push_back(flag != 0 ? 1 : 0);
  for (size_t row = 0; row < logits.size(); row += 64)
    plain::penalise({logits.data() + row, 64}, counts, seen, {1.3F, 0.4F, 0.2F});
  EXPECT_TRUE(same_bits(logits, arith_.f32("penalise.out")));
}

TEST_F(SamplingGolden, Logprobs) {
  auto x = arith_.f32("logprobs.x");
  for (size_t row = 0; row < x.size(); row += 64) plain::logprobs({x.data() + row, 64});
  EXPECT_TRUE(same_bits(x, arith_.f32("logprobs.out")));
}

// The golden file keeps parameters as float32; these are the numbers that they were.
double as_written(float value) {
  return std::round(static_cast<double>(value) * 1000) / 1000;
}

TEST_F(SamplingGolden, EveryCombinationOfFilters) {
  const auto logits = arith_.f32("penalise.x");
  const auto rows = arith_.f32("sample.parameters.out");
  const auto expected = arith_.f32("sample.out");
  for (const kernels::Isa isa : kernels::usable_levels()) {
    Scratch scratch(isa);
    for (size_t row = 0; row < rows.size() / 4; ++row) {
      const Params params{as_written(rows[4 * row]), static_cast<int32_t>(rows[4 * row + 1]),
                          as_written(rows[4 * row + 2]), as_written(rows[4 * row + 3])};
      for (size_t position = 0; position < 40; ++position) {
        const std::span<const float> x(logits.data() + position * 64, 64);
        const float most = *std::max_element(x.begin(), x.end());
        EXPECT_EQ(draw(x, most, {42, position}, params, scratch),
                  static_cast<int32_t>(expected[row * 40 + position]))
            << row << " " << position << " " << kernels::isa_name(isa);
      }
    }
  }
}

}  // namespace
}  // namespace stoker::sampling
