// The scans of cpu/scans.h as templates over the operations of an instruction set (ops256.h,
// ops512.h). L is local to the translation unit that uses them, and so is all that is made here.
#pragma once

#include <cstdint>

#include "sampling/cpu/scans.h"

namespace stoker::sampling {

#define STOKER_INLINE __attribute__((always_inline))

inline constexpr float kMinusInf = -__builtin_inff();
inline constexpr float kMasslessBelow = 23;  // e^-23 * 2^32 is less than a half

template <class L>
[[gnu::always_inline]] inline typename L::Float constant(float value) {
  return L::set(value);
}

/// e^x as tensor/arith.h has it, of numbers up to 88.
template <class L>
[[gnu::always_inline]] inline typename L::Float exp_of(typename L::Float x) {
  using Float = typename L::Float;
  const Float n = L::round(L::mul(x, constant<L>(1.44269504F)));
  Float r = L::fma(n, constant<L>(-0.693145752F), x);
  r = L::fma(n, constant<L>(-1.42860677e-6F), r);
  Float p = constant<L>(0.0013941213255748153F);
  p = L::fma(p, r, constant<L>(0.008375209756195545F));
  p = L::fma(p, r, constant<L>(0.04166635125875473F));
  p = L::fma(p, r, constant<L>(0.16666413843631744F));
  p = L::fma(p, r, constant<L>(0.5F));
  p = L::fma(p, r, constant<L>(1.0F));
  p = L::fma(p, r, constant<L>(1.0F));
  return L::zero_below(x, L::times_pow2(p, n), -87.0F);
}

/// Calls work(x, at, count) for whole groups of kGroup values, at.. at + kGroup - 1, and for what
/// is left with `fill` behind it.
template <int64_t kGroup, class Work>
[[gnu::always_inline]] inline void for_groups(const float* x, int64_t n, float fill,
                                              const Work& work) {
  int64_t at = 0;
  for (; at + kGroup <= n; at += kGroup) work(x + at, at);
  if (at == n) return;
  float rest[kGroup];
  for (int64_t i = 0; i < kGroup; ++i) rest[i] = at + i < n ? x[at + i] : fill;
  work(static_cast<const float*>(rest), at);
}

template <class L>
Extent extent(const float* x, int64_t n) {
  using Float = typename L::Float;
  using Word = typename L::Word;
  constexpr int64_t kGroup = 4 * L::kLanes;
  Float most[4];
  Word largest[4];  // of the bits without the sign: as numbers they rise with the absolute value
  for (int j = 0; j < 4; ++j) {
    most[j] = constant<L>(kMinusInf);
    largest[j] = L::words(0);
  }
  for_groups<kGroup>(x, n, x[0], [&](const float* group, int64_t /*at*/) STOKER_INLINE {
    for (int j = 0; j < 4; ++j) {
      const Float values = L::load(group + j * L::kLanes);
      most[j] = L::max(values, most[j]);
      largest[j] =
          L::max_words(largest[j], L::and_words(L::of_float(values), L::words(0x7FFFFFFFU)));
    }
  });
  float values[L::kLanes];
  int32_t bits[L::kLanes];
  L::store(values, L::max(L::max(most[0], most[1]), L::max(most[2], most[3])));
  L::store_words(bits, L::max_words(L::max_words(largest[0], largest[1]),
                                    L::max_words(largest[2], largest[3])));
  Extent out{values[0], true};
  for (int64_t i = 0; i < L::kLanes; ++i) {
    if (values[i] > out.most) out.most = values[i];
    if (bits[i] >= 0x7F800000) out.is_finite = false;
  }
  return out;
}

template <class L>
int64_t first_of(const float* x, int64_t n, float value) {
  const auto wanted = constant<L>(value);
  int64_t at = 0;
  for (; at + L::kLanes <= n; at += L::kLanes) {
    const uint32_t found = L::bits(L::equal(L::load(x + at), wanted));
    if (found != 0) return at + __builtin_ctz(found);
  }
  while (at < n && x[at] != value) ++at;
  return at;
}

template <class L>
int64_t count_above(const float* x, int64_t n, float value) {
  const auto limit = constant<L>(value);
  int64_t count = 0;
  for_groups<L::kLanes>(x, n, value, [&](const float* group, int64_t /*at*/) STOKER_INLINE {
    count += __builtin_popcount(L::is_above(L::load(group), limit));
  });
  return count;
}

template <class L>
int64_t list_above(const float* x, int64_t n, float value, int32_t* ids, float* values) {
  const auto limit = constant<L>(value);
  int64_t count = 0;
  for_groups<L::kLanes>(x, n, kMinusInf, [&](const float* group, int64_t at) STOKER_INLINE {
    const uint32_t above = L::is_above(L::load(group), limit);
    if (above == 0) return;
    L::append(above, group, static_cast<int32_t>(at), ids + count, values + count);
    count += __builtin_popcount(above);
  });
  return count;
}

template <class L>
void divide(const float* x, int64_t n, float by, float* out) {
  const auto divisor = constant<L>(by);
  int64_t at = 0;
  for (; at + L::kLanes <= n; at += L::kLanes) L::store(out + at, L::div(L::load(x + at), divisor));
  for (; at < n; ++at) out[at] = x[at] / by;
}

/// e^d * 2^32, rounded to a whole number: above 2^24 every float is one.
template <class L>
[[gnu::always_inline]] inline typename L::Float mass_of(typename L::Float d) {
  return L::round(L::mul(exp_of<L>(d), constant<L>(0x1p32F)));
}

template <class L>
void masses(const float* x, int64_t n, float top, double* out) {
  const auto most = constant<L>(top);
  for_groups<L::kLanes>(x, n, kMinusInf, [&](const float* group, int64_t at) STOKER_INLINE {
    L::store_doubles(out + at, mass_of<L>(L::sub(L::load(group), most)));
  });
}

template <class L>
double mass_sum(const float* x, int64_t n, float top) {
  const auto most = constant<L>(top);
  const auto none = constant<L>(-kMasslessBelow);
  auto sums = L::no_doubles();
  for_groups<L::kLanes>(x, n, kMinusInf, [&](const float* group, int64_t /*at*/) STOKER_INLINE {
    const auto below_top = L::sub(L::load(group), most);
    if (L::is_above(below_top, none) == 0) return;
    L::add_doubles(sums, mass_of<L>(below_top));
  });
  return L::total(sums);
}

template <class L>
float exp_sum(const float* x, int64_t n, float top) {
  constexpr int64_t kSumLanes = 16;
  constexpr int64_t kVectors = kSumLanes / L::kLanes;
  const auto most = constant<L>(top);
  typename L::Float sums[kVectors];
  for (auto& sum : sums) sum = L::zero();
  for_groups<kSumLanes>(x, n, kMinusInf, [&](const float* group, int64_t /*at*/) STOKER_INLINE {
    for (int64_t j = 0; j < kVectors; ++j)
      sums[j] = L::add(exp_of<L>(L::sub(L::load(group + j * L::kLanes), most)), sums[j]);
  });
  float lanes[kSumLanes];
  for (int64_t j = 0; j < kVectors; ++j) L::store(lanes + j * L::kLanes, sums[j]);
  for (int64_t half = kSumLanes / 2; half >= 1; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

/// ln x as tensor/arith.h has it, of positive normal numbers.
template <class L>
[[gnu::always_inline]] inline typename L::Float log_of(typename L::Float x) {
  using Float = typename L::Float;
  using Word = typename L::Word;
  const Word bits = L::of_float(x);
  const Word biased = L::template shift_right<23>(bits);
  const Float half =
      L::as_float(L::or_words(L::and_words(bits, L::words(0x007FFFFFU)), L::words(0x3F000000U)));
  const auto is_small = L::less(half, constant<L>(0.70710678F));
  const Float m = L::select(is_small, L::add(half, half), half);
  const Float e = L::float_of_int(L::add_words(
      biased, L::select_words(is_small, L::words(~uint32_t{126}), L::words(~uint32_t{125}))));
  const Float t = L::sub(m, constant<L>(1.0F));
  Float p = constant<L>(7.0376836292e-2F);
  p = L::fma(p, t, constant<L>(-1.1514610310e-1F));
  p = L::fma(p, t, constant<L>(1.1676998740e-1F));
  p = L::fma(p, t, constant<L>(-1.2420140846e-1F));
  p = L::fma(p, t, constant<L>(1.4249322787e-1F));
  p = L::fma(p, t, constant<L>(-1.6668057665e-1F));
  p = L::fma(p, t, constant<L>(2.0000714765e-1F));
  p = L::fma(p, t, constant<L>(-2.4999993993e-1F));
  p = L::fma(p, t, constant<L>(3.3333331174e-1F));
  const Float z = L::mul(t, t);
  Float y = L::fma(e, constant<L>(-2.12194440e-4F), L::mul(L::mul(t, z), p));
  y = L::fma(constant<L>(-0.5F), z, y);
  return L::fma(e, constant<L>(0.693359375F), L::add(t, y));
}

/// Philox4x32-10 of many blocks at one position. Each lane of 64 bits is a block, whose words are
/// the lower halves; what is in the upper ones does not matter.
template <class L>
class Philox {
 public:
  using Word = typename L::Word;

  explicit Philox(const NoiseSource& source) {
    auto k0 = static_cast<uint32_t>(source.seed);
    auto k1 = static_cast<uint32_t>(source.seed >> 32);
    for (int round = 0; round < kRounds; ++round) {
      keys_[2 * round] = L::words(k0);
      keys_[2 * round + 1] = L::words(k1);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    // The first round, of the words that all blocks have.
    const Word high = L::words(static_cast<uint32_t>(source.position >> 32));
    const Word p0 = L::multiply(L::words(static_cast<uint32_t>(source.position)), first_factor());
    const Word p1 = L::multiply(L::words(source.stream), second_factor());
    start_[0] = L::xor_three(L::upper(p1), high, keys_[0]);
    start_[1] = p1;
    start_[2] = L::xor_three(L::upper(p0), keys_[1], L::words(0));
    start_[3] = p0;
  }

  /// The words of the kLanes blocks from the number `first` on, one block after the other.
  [[gnu::always_inline]] void words(int64_t first, Word (&out)[4]) const {
    const Word blocks = L::add_words(L::block_numbers(), L::words(static_cast<uint32_t>(first)));
    State early = begin(blocks);
    State late = begin(L::add_words(blocks, L::words(L::kLanes / 2)));
    for (int round = 1; round < kRounds; ++round) {
      early = next(early, round);
      late = next(late, round);
    }
    L::in_order(L::pairs(early.c0, early.c1), L::pairs(early.c2, early.c3), out[0], out[1]);
    L::in_order(L::pairs(late.c0, late.c1), L::pairs(late.c2, late.c3), out[2], out[3]);
  }

 private:
  struct State {
    Word c0, c1, c2, c3;
  };
  static constexpr int kRounds = 10;

  [[gnu::always_inline]] static Word first_factor() { return L::words(0xD2511F53U); }
  [[gnu::always_inline]] static Word second_factor() { return L::words(0xCD9E8D57U); }
  [[gnu::always_inline]] State begin(Word blocks) const {
    return {start_[0], start_[1], L::xor_three(start_[2], blocks, L::words(0)), start_[3]};
  }
  [[gnu::always_inline]] State next(const State& c, int round) const {
    const Word p0 = L::multiply(c.c0, first_factor());
    const Word p1 = L::multiply(c.c2, second_factor());
    return {L::xor_three(L::upper(p1), c.c1, keys_[2 * round]), p1,
            L::xor_three(L::upper(p0), c.c3, keys_[2 * round + 1]), p0};
  }

  Word keys_[2 * kRounds];
  Word start_[4];
};

/// (word + 1/2) / 2^32, rounded once: both halves of the word are exact.
template <class L>
[[gnu::always_inline]] inline typename L::Float fraction_of(typename L::Word word) {
  const auto high = L::float_of_int(L::template shift_right<16>(word));
  const auto low = L::float_of_int(L::and_words(word, L::words(0xFFFFU)));
  const auto rest = L::mul(L::add(low, constant<L>(0.5F)), constant<L>(0x1p-32F));
  return L::fma(high, constant<L>(0x1p-16F), rest);
}

template <class L>
[[gnu::always_inline]] inline typename L::Float noise_of_fraction(typename L::Float w) {
  const auto one = constant<L>(1.0F);
  const auto u = L::max(L::sub(one, w), constant<L>(0x1p-25F));
  const auto minus_log = L::sub(L::zero(), log_of<L>(u));
  const auto e = L::select(L::equal(u, one), w, L::mul(minus_log, L::div(w, L::sub(one, u))));
  return L::sub(L::zero(), log_of<L>(e));
}

/// Whether top-k, top-p and min-p leave them.
template <class L>
[[gnu::always_inline]] inline typename L::Mask is_kept(const DrawJob& job, typename L::Float x,
                                                       typename L::Word ids) {
  const auto last = constant<L>(job.last.x);
  const auto last_id = L::words(static_cast<uint32_t>(job.last.id));
  auto kept = L::either(L::less(last, x), L::both(L::equal(x, last), L::not_above(ids, last_id)));
  if (job.least_share > 0) {
    const auto share = exp_of<L>(L::sub(x, constant<L>(job.top)));
    const auto least = constant<L>(job.least_share);
    kept = L::both(kept, L::either(L::less(least, share), L::equal(least, share)));
  }
  return kept;
}

/// The best of each lane, as far as it is known.
template <class L>
struct LaneScores {
  typename L::Float value;
  typename L::Word id;
};

template <class L>
Score best_of(const LaneScores<L>& lanes, Score best) {
  float values[L::kLanes];
  int32_t ids[L::kLanes];
  L::store(values, lanes.value);
  L::store_words(ids, lanes.id);
  for (int64_t i = 0; i < L::kLanes; ++i) {
    const bool is_first = values[i] == best.value && ids[i] < best.id;
    if (values[i] > best.value || is_first) best = {values[i], ids[i]};
  }
  return best;
}

/// Which ids may reach a score, from the first 24 bits of their words. Noise is at most -ln w, so
/// that w must not be above e^(x - score); and with y = x - score + 151 ln 2, 2^24 e^(x - score) is
/// at most the float whose bits are y * 2^23 / ln 2, since 1 + f >= 2^f for f in [0, 1].
template <class L>
class Reach {
 public:
  [[gnu::always_inline]] explicit Reach(float score) {
    // Far more than all that is rounded here, in the noise and in x + noise.
    const float slack = 1e-4F + 1e-6F * (score < 0 ? -score : score);
    offset_ = constant<L>((slack - score) * kBitsPerOne + 151.0F * 8388608.0F);
  }

  [[gnu::always_inline]] typename L::Mask reached_by(typename L::Float x,
                                                     typename L::Word word) const {
    const auto bits = L::fma(x, constant<L>(kBitsPerOne), offset_);
    const auto bound = L::as_float(L::int_of_float(L::min(bits, constant<L>(kMostBits))));
    return L::less(L::float_of_int(L::template shift_right<8>(word)), bound);
  }

 private:
  static constexpr float kBitsPerOne = 12102203.0F;  // 2^23 / ln 2
  static constexpr float kMostBits = 2e9F;           // of a float far above 2^24
  typename L::Float offset_;
};

/// Words for the groups that hold an id that may be drawn, and noise for the ids that can win.
template <class L>
Score draw(const DrawJob& job, Score so_far) {
  constexpr int64_t kGroup = 4 * L::kLanes;
  LaneScores<L> best{constant<L>(kMinusInf), L::words(0)};
  const auto above = constant<L>(job.above);
  const Philox<L> philox(job.source);
  Reach<L> reach(so_far.value);
  for_groups<kGroup>(job.x, job.n, kMinusInf, [&](const float* group, int64_t at) STOKER_INLINE {
    uint32_t any = 0;
    for (int j = 0; j < 4; ++j) any |= L::is_above(L::load(group + j * L::kLanes), above);
    if (any == 0) return;
    typename L::Word words[4];
    philox.words(at / 4, words);
    for (int j = 0; j < 4; ++j) {
      const auto x = L::load(group + j * L::kLanes);
      const auto may = L::both(L::less(above, x), reach.reached_by(x, words[j]));
      if (L::bits(may) == 0) continue;
      const auto ids =
          L::add_words(L::lane_numbers(), L::words(static_cast<uint32_t>(at + j * L::kLanes)));
      const auto score = L::add(x, noise_of_fraction<L>(fraction_of<L>(words[j])));
      const auto is_better =
          L::both(L::both(may, is_kept<L>(job, x, ids)), L::less(best.value, score));
      if (L::bits(is_better) == 0) continue;
      best.value = L::select(is_better, score, best.value);
      best.id = L::select_words(is_better, ids, best.id);
      reach = Reach<L>(best_of<L>(best, so_far).value);
    }
  });
  return best_of<L>(best, so_far);
}

#undef STOKER_INLINE

}  // namespace stoker::sampling
