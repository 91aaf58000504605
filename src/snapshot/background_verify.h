// Reads objects for damage while the engine already serves from them.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "snapshot/object.h"

namespace stoker::snapshot {

/// Owns a thread of the lowest priority that checks chunk after chunk. The objects outlive it and
/// stay where they are. Destroying it ends the thread after the chunk that it is at.
class BackgroundVerify {
 public:
  /// Told of the first chunk that is not good, and of which object; or of success after the last
  /// one, with null.
  using Done = std::function<void(Result<void> verified, const Object* damaged)>;

  /// `done` is called once from the thread; never if this is destroyed before. It must not throw.
  BackgroundVerify(std::vector<const Object*> objects, Done done);

 private:
  std::jthread thread_;
};

}  // namespace stoker::snapshot
