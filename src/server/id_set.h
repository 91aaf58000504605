// A set of very many ids that keeps no id, only 128 bits of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace stoker {

/// 64 bits of a text. Source: Fowler, Noll and Vo, FNV-1a.
uint64_t fnv1a64(std::string_view text);

/// A bijection that scatters its argument. Source: Steele, Lea and Flood, SplitMix64.
uint64_t splitmix64(uint64_t value);

/// 23 to 46 bytes an id. Two ids out of a thousand million are taken for one another with a
/// probability below 1e-20. Not thread-safe.
class IdSet {
 public:
  IdSet();

  /// False: it was there already.
  bool insert(std::string_view id);
  bool contains(std::string_view id) const;
  int64_t size() const { return size_; }

 private:
  struct Key {
    uint64_t a = 0, b = 0;  // both 0: an empty slot
    bool operator==(const Key&) const = default;
  };

  static Key key_of(std::string_view id);
  static size_t find(const std::vector<Key>& slots, const Key& key);
  void grow();

  std::vector<Key> slots_;  // a power of two, at most 0.7 of them taken
  int64_t size_ = 0;
};

}  // namespace stoker
