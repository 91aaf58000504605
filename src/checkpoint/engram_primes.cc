// The prime moduli of the Engram hash tables.
#include "base/check.h"
#include "checkpoint/config.h"

namespace stoker {
namespace {

constexpr int64_t kMaxStart = int64_t{1} << 31;  // so that products of two residues fit 64 bits

uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  for (base %= modulus; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * base % modulus;
    base = base * base % modulus;
  }
  return result;
}

// Whether `base` shows that odd n > 37, n - 1 = odd_part << shift, is not prime.
bool is_witness(uint64_t base, uint64_t n, uint64_t odd_part, int shift) {
  uint64_t x = power_modulo(base, odd_part, n);
  if (x == 1 || x == n - 1) return false;
  for (int i = 1; i < shift; ++i) {
    x = x * x % n;
    if (x == n - 1) return false;
  }
  return true;
}

// Miller and Rabin's test; with these bases it is exact below 2.1e12. n < 2^32.
bool is_prime(uint64_t n) {
  constexpr uint64_t kSmallPrimes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  if (n < 2) return false;
  for (const uint64_t p : kSmallPrimes) {
    if (n % p == 0) return n == p;
  }
  uint64_t odd_part = n - 1;
  int shift = 0;
  for (; odd_part % 2 == 0; odd_part /= 2) ++shift;
  for (const uint64_t base : {2, 3, 5, 7, 11}) {
    if (is_witness(base, n, odd_part, shift)) return false;
  }
  return true;
}

}  // namespace

// The reference starts each search at vocab_size again and skips what is in use. All primes from
// there to the last one found are in use then, so the search may as well go on from it.
std::vector<std::vector<std::vector<int64_t>>> engram_primes(size_t num_layers,
                                                             int32_t max_ngram_size,
                                                             int32_t num_heads,
                                                             int64_t vocab_size) {
  CHECK(vocab_size >= 1 && vocab_size <= kMaxStart, "parse_config bounds it");
  CHECK(max_ngram_size >= 2 && num_heads >= 1, "parse_config bounds them");
  std::vector<std::vector<std::vector<int64_t>>> primes(num_layers);
  int64_t candidate = vocab_size - 1;
  for (auto& layer : primes) {
    layer.resize(static_cast<size_t>(max_ngram_size - 1));
    for (auto& row : layer) {
      for (int32_t head = 0; head < num_heads; ++head) {
        do ++candidate;
        while (!is_prime(static_cast<uint64_t>(candidate)));
        row.push_back(candidate);
      }
    }
  }
  return primes;
}

}  // namespace stoker
