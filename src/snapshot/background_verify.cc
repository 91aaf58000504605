#include "snapshot/background_verify.h"

#include <sys/resource.h>

#include <utility>

namespace stoker::snapshot {
namespace {

constexpr int kLowestPriority = 19;

void check_chunks(const std::stop_token& stop, const Object& object,
                  const std::function<void(Result<void>)>& done) {
  // On Linux that of the calling thread alone. Refused or not, the work is the same.
  (void)::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  for (int64_t chunk_idx = 0; chunk_idx < object.num_chunks(); ++chunk_idx) {
    if (stop.stop_requested()) return;
    if (!object.chunk_is_good(chunk_idx)) return done(object.chunk_error(chunk_idx));
  }
  done({});
}

}  // namespace

BackgroundVerify::BackgroundVerify(const Object& object, std::function<void(Result<void>)> done)
    : thread_([&object, done = std::move(done)](const std::stop_token& stop) {
        check_chunks(stop, object, done);
      }) {}

}  // namespace stoker::snapshot
