// Whose a snapshot is: an Ed25519 signature of its manifest, which has the SHA-256 of each section.
// XXH3 finds damage; these find what somebody changed on purpose. All of the arithmetic is
// OpenSSL's.
#pragma once

#include <string>
#include <string_view>

#include "snapshot/manifest.h"
#include "snapshot/store.h"

namespace stoker::catalogue {

constexpr size_t kSignatureBytes = 64;

/// Signs a text with the private key of a PEM file. Errors: kNotFound, kIo; kInvalidArgument for
/// what is no Ed25519 private key without a passphrase, or is readable for others.
Result<std::string> sign_text(const std::string& key_path, std::string_view text);

/// Whether a file can be the key of check_signature. Errors: those of its key.
Result<void> check_public_key(const std::string& key_path);

/// Whether the signature is that of the text by the owner of a public key, a PEM file. Errors:
/// kNotFound for an empty signature and a missing file; kCorruptData for another one;
/// kInvalidArgument for what is no Ed25519 public key; kIo.
Result<void> check_signature(const std::string& key_path, std::string_view text,
                             std::string_view signature);

/// Puts the SHA-256 of each section into a manifest whose objects are all in the store. Errors:
/// those of Store::map.
Result<void> add_sha256(const snapshot::Store& store, snapshot::Manifest& manifest, int num_threads,
                        const snapshot::Progress& progress);

/// Holds every byte of a snapshot against the SHA-256 of its manifest; but for objects that are not
/// there. Errors: those of Store::map; kCorruptData with the object, also for a manifest that has
/// none.
Result<void> verify_sha256(const snapshot::Store& store, const snapshot::Manifest& manifest,
                           int num_threads, const snapshot::Progress& progress);

}  // namespace stoker::catalogue
