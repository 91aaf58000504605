#include "server/keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"

namespace stoker {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxSecretBytes = 1024;
constexpr size_t kMinNamedSecretBytes = 4;  // less is the padding of a key in base64

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

bool is_visible(char c) {
  return c > ' ' && c < '\x7f';
}

Error wrong_key(const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          "expected a key as NAME=SECRET, or as SECRET without =, found one " + what, "api_key"};
}

}  // namespace

Result<ApiKey> parse_api_key(std::string_view text, const std::string& default_name) {
  ApiKey key{default_name, std::string(text)};
  const size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    key = {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
    if (key.secret.size() < kMinNamedSecretBytes)
      return wrong_key("with fewer than 4 characters behind the =");
  }
  if (key.name.empty() || key.name.size() > kMaxNameBytes ||
      !std::all_of(key.name.begin(), key.name.end(), is_name_character))
    return wrong_key("whose name is not 1 to 64 letters, digits, _, . or -");
  if (key.secret.empty() || key.secret.size() > kMaxSecretBytes ||
      !std::all_of(key.secret.begin(), key.secret.end(), is_visible))
    return wrong_key("whose secret is not 1 to 1024 visible ASCII characters");
  return key;
}

KeyRing::KeyRing(const std::vector<ApiKey>& keys) {
  for (const ApiKey& key : keys) keys_.push_back({key.name, digest_of(key.secret)});
}

KeyRing::Digest KeyRing::digest_of(std::string_view secret) {
  Digest digest{};
  const int done =
      EVP_Digest(secret.data(), secret.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  CHECK(done == 1, "SHA-256 of bytes in memory does not fail");
  return digest;
}

const std::string* KeyRing::name_of(std::string_view secret) const {
  if (keys_.empty()) return nullptr;
  const Digest shown = digest_of(secret);
  const std::string* name = nullptr;
  for (const Known& known : keys_) {
    if (CRYPTO_memcmp(shown.data(), known.digest.data(), shown.size()) == 0) name = &known.name;
  }
  return name;
}

}  // namespace stoker
