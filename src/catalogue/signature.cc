#include "catalogue/signature.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/folder.h"
#include "base/try.h"
#include "catalogue/byte_source.h"
#include "snapshot/object.h"

namespace stoker::catalogue {
namespace {

using snapshot::Manifest;
using snapshot::Object;
using snapshot::Section;
using snapshot::Sha256;
using snapshot::Store;

constexpr size_t kMaxKeyBytes = 16 << 10;

using Key = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;
using KeyText = std::unique_ptr<BIO, decltype(&::BIO_free)>;
using Signer = std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)>;

enum class KeyKind { kPrivate, kPublic };

Error no_key(const std::string& path, const std::string& found) {
  return {ErrorCode::kInvalidArgument, path + ": expected " + found, ""};
}

// No passphrase: nobody is asked.
int no_passphrase(char* /*out*/, int /*size*/, int /*writes*/, void* /*data*/) {
  return 0;
}

const uint8_t* octets(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

Result<std::string> read_key_file(const std::string& path, KeyKind kind) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error(path, "cannot be opened");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(path, "cannot be examined");
  if (kind == KeyKind::kPrivate && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return no_key(path, "a private key that others cannot read; chmod go-rwx makes it one");
  FileSource source(std::move(file), path);
  return read_text(source, kMaxKeyBytes).with(path);
}

Result<Key> read_key(const std::string& path, KeyKind kind) {
  TRY_ASSIGN(const std::string text, read_key_file(path, kind));
  const KeyText bio(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), ::BIO_free);
  if (!bio) return Error{ErrorCode::kResourceExhausted, path + ": no memory to read it", ""};
  Key key(kind == KeyKind::kPrivate
              ? ::PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)
              : ::PEM_read_bio_PUBKEY(bio.get(), nullptr, no_passphrase, nullptr),
          ::EVP_PKEY_free);
  const char* const what = kind == KeyKind::kPrivate ? "private" : "public";
  if (!key || ::EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
    return no_key(path, std::string("an Ed25519 ") + what +
                            " key as PEM without passphrase, found something else");
  }
  return key;
}

Error openssl_failed(const std::string& path) {
  return {ErrorCode::kInternal, path + ": OpenSSL could not use this key", ""};
}

// Of one chunk after the other: their digests, then the digest of those.
Result<Sha256> sha256_of(const Object& object, int num_threads,
                         const snapshot::Progress& progress) {
  constexpr size_t kBytes = std::tuple_size_v<Sha256>;
  const auto num_chunks = object.num_chunks();
  std::vector<uint8_t> digests(static_cast<size_t>(num_chunks) * kBytes);
  std::atomic<bool> is_good{true};
  const auto hash = [&is_good](Bytes bytes, uint8_t* out) {
    if (::EVP_Digest(bytes.data(), bytes.size(), out, nullptr, ::EVP_sha256(), nullptr) != 1)
      is_good = false;
  };
  snapshot::for_each_chunk(num_chunks, num_threads, progress, [&](int64_t chunk_idx, int) {
    const auto range = snapshot::chunk_range(chunk_idx, object.section().bytes);
    hash(
        object.bytes().subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.bytes)),
        digests.data() + static_cast<size_t>(chunk_idx) * kBytes);
  });
  Sha256 digest{};
  hash(digests, digest.data());
  if (is_good) return digest;
  return Error{ErrorCode::kInternal, object.section().object() + ": OpenSSL has no SHA-256", ""};
}

// The digest of one section after the other; tells how much of all is done.
class SectionHasher {
 public:
  SectionHasher(const Store& store, const Manifest& manifest, int num_threads,
                const snapshot::Progress& progress)
      : store_(store),
        num_bytes_(static_cast<double>(manifest.bytes())),
        num_threads_(num_threads),
        progress_(progress) {}

  Result<Sha256> next(const Section& section) {
    TRY_ASSIGN(const Object object, store_.map(section));
    const auto bytes = static_cast<double>(section.bytes);
    TRY_ASSIGN(const Sha256 digest, sha256_of(object, num_threads_, [&](double fraction) {
                 if (progress_) progress_((num_done_ + fraction * bytes) / num_bytes_);
               }));
    num_done_ += bytes;
    return digest;
  }

 private:
  const Store& store_;
  const double num_bytes_;
  const int num_threads_;
  const snapshot::Progress& progress_;
  double num_done_ = 0;
};

}  // namespace

Result<std::string> sign_text(const std::string& key_path, std::string_view text) {
  TRY_ASSIGN(const Key key, read_key(key_path, KeyKind::kPrivate));
  const Signer signer(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free);
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  const bool is_signed =
      signer && ::EVP_DigestSignInit(signer.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      ::EVP_DigestSign(signer.get(), reinterpret_cast<uint8_t*>(signature.data()), &size,
                       octets(text), text.size()) == 1;
  if (!is_signed || size != kSignatureBytes) return openssl_failed(key_path);
  return signature;
}

Result<void> check_public_key(const std::string& key_path) {
  TRY_ASSIGN([[maybe_unused]] const Key key, read_key(key_path, KeyKind::kPublic));
  return {};
}

Result<void> check_signature(const std::string& key_path, std::string_view text,
                             std::string_view signature) {
  TRY_ASSIGN(const Key key, read_key(key_path, KeyKind::kPublic));
  if (signature.empty())
    return Error{ErrorCode::kNotFound, "expected a snapshot that is signed, found no signature",
                 ""};
  const Signer signer(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free);
  if (!signer || ::EVP_DigestVerifyInit(signer.get(), nullptr, nullptr, nullptr, key.get()) != 1)
    return openssl_failed(key_path);
  const bool is_good = signature.size() == kSignatureBytes &&
                       ::EVP_DigestVerify(signer.get(), octets(signature), signature.size(),
                                          octets(text), text.size()) == 1;
  if (is_good) return {};
  return Error{ErrorCode::kCorruptData,
               "expected a signature of its manifest by the key of " + key_path +
                   ", found one by another key, or of another text",
               ""};
}

Result<void> add_sha256(const Store& store, Manifest& manifest, int num_threads,
                        const snapshot::Progress& progress) {
  SectionHasher hasher(store, manifest, num_threads, progress);
  std::vector<Sha256> digests;
  for (const Section& section : manifest.sections) {
    TRY_ASSIGN(const Sha256 digest, hasher.next(section));
    digests.push_back(digest);
  }
  manifest.sha256 = std::move(digests);
  return {};
}

Result<void> verify_sha256(const Store& store, const Manifest& manifest, int num_threads,
                           const snapshot::Progress& progress) {
  if (manifest.sha256.size() != manifest.sections.size()) {
    return Error{ErrorCode::kCorruptData,
                 "expected a manifest with the SHA-256 of each section, found none", ""};
  }
  SectionHasher hasher(store, manifest, num_threads, progress);
  for (size_t i = 0; i < manifest.sections.size(); ++i) {
    const auto digest = hasher.next(manifest.sections[i]);
    if (!digest && digest.error().code == ErrorCode::kNotFound) continue;
    if (!digest) return digest.error();
    if (*digest == manifest.sha256[i]) continue;
    return Error{ErrorCode::kCorruptData,
                 manifest.sections[i].object() +
                     ": expected the SHA-256 of the manifest, found another: it was changed",
                 ""};
  }
  return {};
}

}  // namespace stoker::catalogue
