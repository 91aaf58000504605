// Which rows of an Engram table a position looks up: hashes of the last n token classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/config.h"

namespace stoker {

/// numpy's default_rng(seed).integers(0, bound), several draws in order. bound in [2^32 + 1, 2^63).
/// Source: tools/reference/v41/engram.py, hash_multipliers (PCG64 seeded through SeedSequence).
std::vector<uint64_t> pcg64_draws(uint64_t seed, uint64_t bound, int32_t count);

/// Odd constants of one Engram layer: [max_ngram_size].
/// Source: tools/reference/v41/engram.py, hash_multipliers.
std::vector<uint64_t> hash_multipliers(int32_t layer, int32_t max_ngram_size,
                                       int64_t compressed_vocab_size);

/// The hashes of a model's Engram layers. Immutable.
class EngramHash {
 public:
  /// pad_class: class of the padding token, in [0, engram_compressed_vocab_size).
  EngramHash(const ModelConfig& config, int32_t pad_class);

  /// Rows of Engram layer number `table` for one position -> rows [engram_columns]. classes
  /// [max_ngram_size]: class of the token at the position, then of those before it, newest first; a
  /// negative one blocks itself and all older ones. Source: tools/reference/v41/engram.py,
  /// NgramHash.
  void rows(size_t table, std::span<const int32_t> classes, int64_t* rows) const;

 private:
  struct Table {
    std::vector<uint64_t> multipliers;         // [max_ngram_size]
    std::vector<std::vector<int64_t>> primes;  // [ngram size - 2][head]
  };
  int32_t pad_class_;
  std::vector<Table> tables_;
};

}  // namespace stoker
