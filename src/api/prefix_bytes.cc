#include "api/prefix_bytes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/check.h"
#include "snapshot/digest.h"

namespace stoker {
namespace {

using snapshot::Digest;

constexpr std::string_view kPrefixMagic = "stokpref";
constexpr int64_t kPrefixVersion = 1;
// Where the parts of the head begin.
constexpr size_t kVersionAt = 8;
constexpr size_t kDigestAt = 16;
constexpr size_t kSizeAt = 32;  // what the digest covers begins here
constexpr size_t kModelAt = 40;
constexpr size_t kModeAt = 56;
constexpr size_t kHeadBytes = 88;

Error damaged_head(const std::string& what) {
  return {ErrorCode::kCorruptData, "saved prefix: " + what, ""};
}

Error of_another(const std::string& what, const std::string& expected, const std::string& found) {
  return {ErrorCode::kInvalidArgument,
          "saved prefix: " + what + ": expected " + expected + ", found " + found, ""};
}

Digest digest_at(Bytes bytes, size_t at) {
  Digest digest;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), digest.bytes.size(),
              digest.bytes.begin());
  return digest;
}

// Text in a field that zeros fill up; what is not printable is not quoted.
std::string mode_at(Bytes bytes) {
  std::string mode;
  for (size_t at = kModeAt; at < kHeadBytes && bytes[at] != 0; ++at) {
    const auto letter = static_cast<char>(bytes[at]);
    mode += letter > ' ' && letter <= '~' ? letter : '?';
  }
  return mode;
}

}  // namespace

void begin_prefix(std::vector<uint8_t>& out) {
  out.assign(kHeadBytes, 0);
}

void seal_prefix(std::vector<uint8_t>& out, const ModelInfo& model) {
  const auto model_digest = Digest::from_hex(model.digest);
  CHECK(model_digest && model.numeric_mode.size() <= kHeadBytes - kModeAt,
        "a loaded model has a digest, and a mode's name is short");
  const auto put = [&out](size_t at, const void* from, size_t size) {
    std::memcpy(out.data() + at, from, size);
  };
  const auto total = static_cast<int64_t>(out.size());
  put(0, kPrefixMagic.data(), kPrefixMagic.size());
  put(kVersionAt, &kPrefixVersion, sizeof kPrefixVersion);
  put(kSizeAt, &total, sizeof total);
  put(kModelAt, model_digest->bytes.data(), model_digest->bytes.size());
  put(kModeAt, model.numeric_mode.data(), model.numeric_mode.size());
  const Digest digest = snapshot::digest_of(Bytes(out).subspan(kSizeAt));
  put(kDigestAt, digest.bytes.data(), digest.bytes.size());
}

Result<Bytes> open_prefix(Bytes bytes, const ModelInfo& model) {
  if (bytes.size() < kHeadBytes) {
    return damaged_head("expected at least " + std::to_string(kHeadBytes) + " bytes, found " +
                        std::to_string(bytes.size()));
  }
  if (!std::equal(kPrefixMagic.begin(), kPrefixMagic.end(), bytes.begin()))
    return damaged_head("expected it to begin with " + std::string(kPrefixMagic));
  const auto version = load_le<int64_t>(bytes.data() + kVersionAt);
  if (version != kPrefixVersion) {
    return Error{ErrorCode::kUnsupported,
                 "saved prefix: expected version " + std::to_string(kPrefixVersion) + ", found " +
                     std::to_string(version),
                 ""};
  }
  const auto total = load_le<int64_t>(bytes.data() + kSizeAt);
  if (total != static_cast<int64_t>(bytes.size())) {
    return damaged_head("expected " + std::to_string(total) + " bytes, found " +
                        std::to_string(bytes.size()));
  }
  const Digest expected = digest_at(bytes, kDigestAt);
  if (const Digest found = snapshot::digest_of(bytes.subspan(kSizeAt)); found != expected)
    return damaged_head("expected the digest " + expected.hex() + ", found " + found.hex());
  if (const Digest found = digest_at(bytes, kModelAt); found.hex() != model.digest)
    return of_another("model digest", model.digest, found.hex());
  const std::string mode = mode_at(bytes);
  if (mode != model.numeric_mode) return of_another("numeric mode", model.numeric_mode, mode);
  return bytes.subspan(kHeadBytes);
}

}  // namespace stoker
