#include "model/engram_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace stoker {
namespace {

__extension__ using Uint128 = unsigned __int128;

// numpy's SeedSequence of one 32-bit word: a pool of four words, then as many as asked for.
class SeedSequence {
 public:
  explicit SeedSequence(uint32_t entropy) {
    pool_ = {hash(entropy), hash(0), hash(0), hash(0)};
    for (size_t from = 0; from < 4; ++from) {
      for (size_t to = 0; to < 4; ++to) {
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
      }
    }
  }

  std::array<uint64_t, 4> state() const {
    std::array<uint32_t, 8> words{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < words.size(); ++i) {
      uint32_t word = pool_[i % 4] ^ constant;
      constant *= 0x58f38dedU;
      word *= constant;
      words[i] = word ^ (word >> 16);
    }
    std::array<uint64_t, 4> state{};
    for (size_t i = 0; i < 4; ++i)
      state[i] = words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
    return state;
  }

 private:
  uint32_t hash(uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875U;
    value *= constant_;
    return value ^ (value >> 16);
  }

  static uint32_t mix(uint32_t x, uint32_t y) {
    const uint32_t result = 0xca01f9ddU * x - 0x4973f715U * y;
    return result ^ (result >> 16);
  }

  uint32_t constant_ = 0x43b0d7e5;
  std::array<uint32_t, 4> pool_{};
};

// PCG64 (XSL-RR) as numpy seeds and steps it.
class Pcg64 {
 public:
  explicit Pcg64(uint32_t seed) {
    const auto s = SeedSequence(seed).state();
    increment_ = (wide(s[2], s[3]) << 1) | 1;
    step();
    state_ += wide(s[0], s[1]);
    step();
  }

  uint64_t next() {
    step();
    const auto high = static_cast<uint64_t>(state_ >> 64);
    return std::rotr(high ^ static_cast<uint64_t>(state_), static_cast<int>(state_ >> 122));
  }

  // Lemire's method: uniform in [0, bound).
  uint64_t below(uint64_t bound) {
    Uint128 product = static_cast<Uint128>(next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = (0 - bound) % bound;
      while (static_cast<uint64_t>(product) < threshold)
        product = static_cast<Uint128>(next()) * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  static Uint128 wide(uint64_t high, uint64_t low) {
    return static_cast<Uint128>(high) << 64 | low;
  }
  void step() { state_ = state_ * wide(2549297995355413924U, 4865540595714422341U) + increment_; }

  Uint128 state_ = 0;
  Uint128 increment_ = 0;
};

}  // namespace

std::vector<uint64_t> pcg64_draws(uint64_t seed, uint64_t bound, int32_t count) {
  Pcg64 generator(static_cast<uint32_t>(seed));
  std::vector<uint64_t> draws;
  draws.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) draws.push_back(generator.below(bound));
  return draws;
}

std::vector<uint64_t> hash_multipliers(int32_t layer, int32_t max_ngram_size,
                                       int64_t compressed_vocab_size) {
  const int64_t bound =
      std::max<int64_t>(1, std::numeric_limits<int64_t>::max() / compressed_vocab_size / 2);
  auto draws = pcg64_draws(10007 * static_cast<uint64_t>(layer), static_cast<uint64_t>(bound),
                           max_ngram_size);
  for (uint64_t& draw : draws) draw = 2 * draw + 1;
  return draws;
}

EngramHash::EngramHash(const ModelConfig& config, int32_t pad_class) : pad_class_(pad_class) {
  const auto primes = engram_primes(config.engram_layer_ids.size(), config.engram_max_ngram_size,
                                    config.engram_n_heads, config.engram_vocab_size);
  for (size_t table = 0; table < primes.size(); ++table) {
    tables_.push_back(
        {hash_multipliers(config.engram_layer_ids[table], config.engram_max_ngram_size,
                          config.engram_compressed_vocab_size),
         primes[table]});
  }
}

void EngramHash::rows(size_t table, std::span<const int32_t> classes, int64_t* rows) const {
  const Table& t = tables_[table];
  uint64_t rolling = 0;
  int64_t offset = 0;
  bool blocked = false;
  for (size_t back = 0; back < classes.size(); ++back) {
    blocked = blocked || classes[back] < 0;
    const int32_t token_class = blocked ? pad_class_ : classes[back];
    const uint64_t product = static_cast<uint64_t>(token_class) * t.multipliers[back];
    rolling = back == 0 ? product : rolling ^ product;
    if (back == 0) continue;
    for (const int64_t prime : t.primes[back - 1]) {
      *rows++ = static_cast<int64_t>(rolling % static_cast<uint64_t>(prime)) + offset;
      offset += prime;
    }
  }
}

}  // namespace stoker
