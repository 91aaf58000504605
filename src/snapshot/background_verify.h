// Reads an object for damage while the engine already serves from it.
#pragma once

#include <functional>
#include <thread>

#include "snapshot/object.h"

namespace stoker::snapshot {

/// Owns a thread of the lowest priority that checks chunk after chunk. The object outlives it and
/// stays where it is. Destroying it ends the thread after the chunk that it is at.
class BackgroundVerify {
 public:
  /// `done` is called once from the thread, with success after the last chunk, or with the
  /// kCorruptData of the first one that is not good; never if it is destroyed before. It must not
  /// throw.
  BackgroundVerify(const Object& object, std::function<void(Result<void>)> done);

 private:
  std::jthread thread_;
};

}  // namespace stoker::snapshot
