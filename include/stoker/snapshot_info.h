// What is told of snapshots, and what of a running engine is saved as one (stoker/snapshot.h,
// Engine::save_snapshot).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stoker {

/// An object of a snapshot.
struct SnapshotPart {
  std::string name;    ///< "weights", "tables", "tokenizer", ...
  std::string object;  ///< its file in objects/ of the store
  int64_t num_bytes = 0;
};

/// What a manifest says, for people. A plain value.
struct SnapshotInfo {
  std::string id;          ///< 32 hexadecimal digits
  std::string model_name;  ///< as which it is served
  std::string created;     ///< "2026-01-31T12:00:00Z"
  std::string tool;        ///< which program made it
  std::string model_digest;
  std::string numeric_mode;
  std::string host_isa;  ///< what a processor must have, "x86-avx2"
  std::string host_cpu;  ///< where it was made
  int64_t num_bytes = 0;
  bool is_signed = false;
  std::vector<SnapshotPart> parts;
};

/// The most cached prefixes that a snapshot takes, and their bytes together.
inline constexpr int kMaxSavedPrefixes = 256;
inline constexpr int64_t kMaxSavedPrefixBytes = int64_t{1} << 30;

/// What of a running engine is saved, and how.
struct SaveSnapshot {
  std::string name = {};  ///< as which the model is served; empty: as which it is now
  /// Of cached prefixes without a salt, those last used: at most so many, 0 to kMaxSavedPrefixes,
  /// and as many of them as kMaxSavedPrefixBytes hold. They have the tokens of what users wrote.
  int max_prefixes = 0;
  /// For the prompts of the canary, also where others are answered at the same time.
  std::chrono::milliseconds canary_limit{600'000};
  /// Asked now and then, on the calling thread; true: it gives up. May be null.
  std::function<bool()> is_cancelled = {};
};

/// What became of it.
struct SavedSnapshot {
  SnapshotInfo info;
  int num_prefixes = 0;
  int64_t num_prefix_tokens = 0;  ///< of all of them, each counted by itself
};

}  // namespace stoker
