#include "snapshot/digest.h"

// All of it in this file: nothing to link, and the processor's wide registers are used.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace stoker::snapshot {
namespace {

Digest digest_of_hash(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Digest digest;
  static_assert(sizeof canonical.digest == sizeof digest.bytes);
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), digest.bytes.begin());
  return digest;
}

// -1: no digit that hex() writes.
int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

std::string Digest::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Digest> Digest::from_hex(std::string_view text) {
  if (text.size() != kHexDigits) return std::nullopt;
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = value_of(text[2 * i]);
    const int low = value_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Digest digest_of(Bytes bytes) {
  return digest_of_hash(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest digest_of(std::string_view text) {
  return digest_of(bytes_of(text));
}

uint64_t chunk_digest(Bytes chunk, int64_t chunk_idx) {
  return XXH3_64bits_withSeed(chunk.data(), chunk.size(), static_cast<uint64_t>(chunk_idx));
}

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}

Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

Hasher& Hasher::add(Bytes bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add_number(int64_t number) {
  std::string bytes;
  append_le(bytes, number);
  return add(bytes_of(bytes));
}

Hasher& Hasher::add_text(std::string_view text) {
  add_number(static_cast<int64_t>(text.size()));
  return add(bytes_of(text));
}

Digest Hasher::digest() const {
  return digest_of_hash(XXH3_128bits_digest(&state_->xxh));
}

}  // namespace stoker::snapshot
