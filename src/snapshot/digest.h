// The digests of the store: XXH3, which finds damage at the speed of memory, and no malice. The
// only user of xxHash.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace stoker::snapshot {

/// 128 bits of XXH3, in the order in which `xxhsum -H2` prints them. A value.
struct Digest {
  static constexpr size_t kHexDigits = 32;

  std::array<uint8_t, 16> bytes{};

  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
  /// What hex() wrote, and nothing else.
  static std::optional<Digest> from_hex(std::string_view text);

  bool operator==(const Digest&) const = default;
};

/// XXH3-128 of `bytes`.
Digest digest_of(Bytes bytes);
/// As text.
Digest digest_of(std::string_view text);

/// The bytes of a text, which they borrow.
Bytes bytes_of(std::string_view text);

/// XXH3-64 of a chunk, seeded with its index, so that exchanged chunks are found too.
uint64_t chunk_digest(Bytes chunk, int64_t chunk_idx);

/// XXH3-128 of what was added, in order. Movable; one thread at a time.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  /// The bytes as they are: two pieces are the same as one. For long data.
  Hasher& add(Bytes bytes);
  /// Eight bytes, little-endian.
  Hasher& add_number(int64_t number);
  /// The length as a number, then the text: the parts of a key cannot run into each other.
  Hasher& add_text(std::string_view text);

  /// Of all so far; more may be added.
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::snapshot
