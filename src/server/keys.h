// The keys that clients show, and who they are by them. A key is known here by its SHA-256 alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/result.h"

namespace stoker {

/// One key. A plain value.
struct ApiKey {
  std::string name;    ///< 1 to 64 letters, digits and "_.-": told in logs and metrics
  std::string secret;  ///< 1 to 1024 visible ASCII characters
};

/// A key as it is given: "NAME=SECRET", or "SECRET" alone, which holds no "=" and is then called
/// `default_name`. Error: kInvalidArgument, without a character of the secret.
Result<ApiKey> parse_api_key(std::string_view text, const std::string& default_name);

/// Knows keys. Immutable; safe from any thread.
class KeyRing {
 public:
  KeyRing() = default;  ///< none
  explicit KeyRing(const std::vector<ApiKey>& keys);

  bool empty() const { return keys_.empty(); }

  /// The name of the key with that secret, or null. All keys are compared, each in a time that does
  /// not depend on what is shown.
  const std::string* name_of(std::string_view secret) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Known {
    std::string name;
    Digest digest;
  };
  static Digest digest_of(std::string_view secret);

  std::vector<Known> keys_;
};

}  // namespace stoker
