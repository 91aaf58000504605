#include "api/stored_weights.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "base/worker_pool.h"
#include "model/packed_weights.h"

namespace stoker {
namespace {

using snapshot::Digest;
using snapshot::Found;
using snapshot::Object;
using snapshot::ObjectWriter;
using snapshot::Section;
using snapshot::Store;

constexpr const char* kWeightsKind = "weights";

Digest key_of(const Digest& fingerprint) {
  snapshot::Hasher hasher;
  return hasher.add_text("packed").add_number(kPackedVersion).add(fingerprint.bytes).digest();
}

// One attempt for one checkpoint.
class WeightsMaker {
 public:
  WeightsMaker(const Store& store, const Digest& fingerprint, const Checkpoint& checkpoint,
               const StoreWork& work)
      : store_(store), key_(key_of(fingerprint)), from_(checkpoint.weights()), work_(work) {}

  struct Mapped {
    Object object;
    std::unique_ptr<const ModelWeights> weights;
    bool is_new = false;
  };

  Result<Mapped> have() {
    auto found = find();
    if (found) return found;
    if (found.error().code != ErrorCode::kNotFound) note_refused(found.error());
    const auto lock = store_.lock(kWeightsKind, key_, wait_of(work_.progress));
    if (!lock) return lock.error();
    if (auto made = find()) return made;  // by another one, meanwhile
    if (auto forgotten = forget(); !forgotten) return std::move(forgotten).error();
    store_.remove_leftovers();
    return make();
  }

 private:
  // What is there and can be used; else kNotFound.
  Result<Mapped> find() const {
    const Found found = store_.find(kWeightsKind, key_);
    if (!found.section) return Error{ErrorCode::kNotFound, found.reason, ""};
    return map(*found.section, work_.verify);
  }

  Result<Mapped> map(const Section& section, Verify verify) const {
    TRY_ASSIGN(Object object, verify == Verify::kFull ? attach(section) : store_.map(section));
    TRY_ASSIGN(auto weights, packed_weights_in(object, from_));
    return Mapped{std::move(object), std::move(weights)};
  }

  // All of it in memory, and verified.
  Result<Object> attach(const Section& section) const {
    snapshot::AttachOptions options;
    options.num_threads = work_.num_threads;
    options.progress = [&](double fraction) {
      tell("verifying packed weights", fraction, section.bytes);
    };
    TRY_ASSIGN(snapshot::Attached attached, snapshot::attach(store_, section, options));
    if (work_.log) work_.log(LogLevel::kInfo, attached_line(section, attached.report));
    return std::move(attached.object);
  }

  Result<void> forget() const {
    const Found damaged = store_.find(kWeightsKind, key_);
    return damaged.section ? store_.remove(*damaged.section) : Result<void>();
  }

  Result<Mapped> make() const {
    tell("packing weights", 0, 0);
    WorkerPool pool(work_.num_threads);
    const PackedLayout layout = PackedLayout::of(from_, pool);
    TRY_ASSIGN(ObjectWriter writer, store_.create(kWeightsKind, layout.bytes()));
    const auto write = [&writer](int64_t at, Bytes part) { return writer.write(at, part); };
    auto packed = layout.pack(pool, write, [this](int64_t done, int64_t total) {
      tell("packing weights", static_cast<double>(done) / static_cast<double>(total), total);
    });
    if (!packed) return std::move(packed).error();
    TRY_ASSIGN(const Section section, writer.publish(key_, work_.num_threads, [&](double fraction) {
      tell("writing packed weights", fraction, layout.bytes());
    }));
    TRY_ASSIGN(Mapped mapped, map(section, Verify::kBackground));  // all was just read
    mapped.is_new = true;
    return mapped;
  }

  void tell(const std::string& phase, double fraction, int64_t num_bytes) const {
    if (work_.progress) work_.progress({phase, fraction, num_bytes});
  }

  void note_refused(const Error& error) const {
    if (work_.log)
      work_.log(LogLevel::kWarning, "event=weights_refused reason=\"" + error.message + "\"");
  }

  const Store& store_;
  const Digest key_;
  const ModelWeights& from_;
  const StoreWork& work_;
};

}  // namespace

std::string attached_line(const Section& section, const snapshot::AttachReport& report) {
  return "event=" + section.kind + "_attached way=" + std::string(snapshot::name_of(report.way)) +
         " why=\"" + report.why + "\" bytes=" + std::to_string(report.bytes) +
         " map_s=" + std::to_string(report.map_s) +
         " populate_s=" + std::to_string(report.populate_s) +
         " verify_s=" + std::to_string(report.verify_s);
}

// Its header is used at once, so the chunks of it are read now.
Result<std::unique_ptr<const ModelWeights>> packed_weights_in(const Object& object,
                                                              const ModelWeights& from) {
  if (auto good = object.verify_head(PackedLayout::header_bytes(from)); !good)
    return std::move(good).error();
  TRY_ASSIGN(const PackedLayout layout, PackedLayout::read(object.bytes(), from));
  return std::make_unique<const ModelWeights>(layout.weights_in(object.bytes().data()));
}

snapshot::WaitSink wait_of(const ProgressSink& progress) {
  return [progress](const std::string& why) {
    if (progress) progress({why});
    return true;
  };
}

Result<Store> open_store(const std::string& dir) {
  if (!dir.empty()) return Store::open(dir);
  TRY_ASSIGN(const std::string usual, Store::default_dir());
  return Store::open(usual);
}

Result<StoredWeights> stored_weights(Store store, const Digest& fingerprint,
                                     const Checkpoint& checkpoint, const StoreWork& work) {
  TRY_ASSIGN(WeightsMaker::Mapped mapped,
             WeightsMaker(store, fingerprint, checkpoint, work).have());
  std::vector<Object> objects;
  objects.push_back(std::move(mapped.object));
  return StoredWeights{std::move(store), std::move(objects), std::move(mapped.weights),
                       mapped.is_new};
}

}  // namespace stoker
