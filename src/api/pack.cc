#include "stoker/pack.h"

#include "api/fingerprint.h"
#include "api/loaded_model.h"
#include "api/stored_weights.h"
#include "base/try.h"

namespace stoker {

Result<PackedFile> pack_model(const std::string& model, const PackOptions& options) {
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(Checkpoint checkpoint, Checkpoint::open_headers(path));
  TRY_ASSIGN(snapshot::Store store, open_store(options.store));
  TRY_ASSIGN(const auto fingerprint,
             fingerprint_of(checkpoint, store, num_threads, options.progress));
  TRY_ASSIGN(const StoredWeights stored,
             stored_weights(std::move(store), fingerprint, checkpoint,
                            {options.verify, num_threads, options.log, options.progress}));
  const snapshot::Section& section = stored.objects.front().section();
  return PackedFile{stored.store->dir() + "/objects/" + section.object(), section.bytes,
                    section.digest.hex(), stored.is_new};
}

}  // namespace stoker
