#include "snapshot/background_verify.h"

#include <sys/resource.h>

#include <utility>

namespace stoker::snapshot {
namespace {

constexpr int kLowestPriority = 19;

void check_chunks(const std::stop_token& stop, const std::vector<const Object*>& objects,
                  const BackgroundVerify::Done& done) {
  // On Linux that of the calling thread alone. Refused or not, the work is the same.
  (void)::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  for (const Object* object : objects) {
    for (int64_t chunk_idx = 0; chunk_idx < object->num_chunks(); ++chunk_idx) {
      if (stop.stop_requested()) return;
      if (!object->chunk_is_good(chunk_idx)) return done(object->chunk_error(chunk_idx), object);
    }
  }
  done({}, nullptr);
}

}  // namespace

BackgroundVerify::BackgroundVerify(std::vector<const Object*> objects, Done done)
    : thread_([objects = std::move(objects), done = std::move(done)](const std::stop_token& stop) {
        check_chunks(stop, objects, done);
      }) {}

}  // namespace stoker::snapshot
