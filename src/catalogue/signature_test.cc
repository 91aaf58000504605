#include "catalogue/signature.h"

#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cstring>

#include "snapshot/snapshot_fixture.h"

namespace stoker::catalogue {
namespace {

using snapshot::Manifest;
using snapshot::Store;
using ::testing::HasSubstr;

class Signature : public snapshot::SnapshotsTest {
 protected:
  void SetUp() override {
    SnapshotsTest::SetUp();
    make_keys("ours", EVP_PKEY_ED25519);
    make_keys("theirs", EVP_PKEY_ED25519);
    make_keys("exchange", EVP_PKEY_X25519);
  }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  void make_keys(const std::string& name, int kind) const {
    EVP_PKEY* key = nullptr;
    EVP_PKEY_CTX* const context = ::EVP_PKEY_CTX_new_id(kind, nullptr);
    ASSERT_EQ(::EVP_PKEY_keygen_init(context), 1);
    ASSERT_EQ(::EVP_PKEY_keygen(context, &key), 1);
    std::FILE* file = std::fopen(path(name + ".pem").c_str(), "w");
    ASSERT_EQ(::PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr), 1);
    std::fclose(file);
    ::chmod(path(name + ".pem").c_str(), 0600);
    file = std::fopen(path(name + ".pub").c_str(), "w");
    ASSERT_EQ(::PEM_write_PUBKEY(file, key), 1);
    std::fclose(file);
    ::EVP_PKEY_free(key);
    ::EVP_PKEY_CTX_free(context);
  }
};

TEST_F(Signature, IsGoodForItsTextAndKeyAlone) {
  const auto signature = sign_text(path("ours.pem"), "a text");
  ASSERT_TRUE(signature) << signature.error().message;
  EXPECT_EQ(signature->size(), kSignatureBytes);
  EXPECT_TRUE(check_signature(path("ours.pub"), "a text", *signature));
  EXPECT_EQ(check_signature(path("ours.pub"), "a text.", *signature).error().code,
            ErrorCode::kCorruptData);
  EXPECT_EQ(check_signature(path("theirs.pub"), "a text", *signature).error().code,
            ErrorCode::kCorruptData);
  EXPECT_EQ(check_signature(path("ours.pub"), "a text", "").error().code, ErrorCode::kNotFound);
  for (size_t i = 0; i < signature->size(); ++i) {
    std::string other = *signature;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(check_signature(path("ours.pub"), "a text", other)) << i;
  }
  EXPECT_FALSE(check_signature(path("ours.pub"), "a text", signature->substr(1)));
  EXPECT_FALSE(check_signature(path("ours.pub"), "a text", *signature + "x"));
}

TEST_F(Signature, WantsKeysOfItsKind) {
  EXPECT_EQ(sign_text(path("no.pem"), "a").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(sign_text(path("ours.pub"), "a").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(sign_text(path("exchange.pem"), "a").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_signature(path("ours.pem"), "a", "b").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_signature(path("exchange.pub"), "a", "b").error().code,
            ErrorCode::kInvalidArgument);
  std::ofstream(dir_ / "long.pub") << std::string(100'000, 'a');
  EXPECT_FALSE(check_signature(path("long.pub"), "a", "b"));
  ::chmod(path("ours.pem").c_str(), 0644);
  EXPECT_THAT(sign_text(path("ours.pem"), "a").error().message, HasSubstr("chmod go-rwx"));
}

TEST_F(Signature, FindsWhatEveryOtherDigestWasMadeAnewFor) {
  const Store store = open_store();
  const auto weights = put(store, key_, snapshot::made_bytes(snapshot::kTestBytes, 7));
  Manifest manifest = snapshot::made_manifest("m", {put_part(store, "config", "{}"), weights});
  EXPECT_THAT(verify_sha256(store, manifest, 2, {}).error().message, HasSubstr("found none"));
  ASSERT_TRUE(add_sha256(store, manifest, 2, {}));
  EXPECT_TRUE(snapshot::check_manifest(manifest));
  EXPECT_TRUE(verify_sha256(store, manifest, 1, {}));
  auto bytes = snapshot::made_bytes(snapshot::kTestBytes, 7);
  bytes.back() ^= 1;
  manifest.sections[1] = put(store, key_, bytes);  // its chunk table is right
  const auto verified = verify_sha256(store, manifest, 2, {});
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(verified.error().message, HasSubstr("weights.0"));
}

// SHA-256 of the SHA-256s of the chunks, by hand.
TEST_F(Signature, IsTheDigestOfTheDigestsOfChunks) {
  const Store store = open_store();
  const auto bytes = snapshot::made_bytes(snapshot::kChunkBytes + 5, 1);
  Manifest manifest = snapshot::made_manifest("m", {put(store, key_, bytes)});
  ASSERT_TRUE(add_sha256(store, manifest, 2, {}));
  const auto hash = [](const uint8_t* data, size_t size, uint8_t* out) {
    ASSERT_EQ(::EVP_Digest(data, size, out, nullptr, ::EVP_sha256(), nullptr), 1);
  };
  uint8_t digests[64];
  hash(bytes.data(), snapshot::kChunkBytes, digests);
  hash(bytes.data() + snapshot::kChunkBytes, 5, digests + 32);
  snapshot::Sha256 expected{};
  hash(digests, sizeof digests, expected.data());
  EXPECT_EQ(manifest.sha256, std::vector{expected});
}

}  // namespace
}  // namespace stoker::catalogue
