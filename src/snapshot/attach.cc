#include "snapshot/attach.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/try.h"
#include "snapshot/chunk_loader.h"
#include "snapshot/handover.h"
#include "snapshot/page_cache.h"
#include "snapshot/pin_record.h"

namespace stoker::snapshot {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReadsInFlight = 8;
constexpr int64_t kMeasuredChunks = 16;  // 64 MiB, each way
constexpr auto kMeasuredBytes = static_cast<double>(kMeasuredChunks * kChunkBytes);
constexpr int kMeasuredTurns = 2;
constexpr double kWorthMapping = 0.7;  // of the rate of direct reads
constexpr double kCountsAsCached = 0.95;
constexpr int64_t kDirectUnit = 4096;  // of offset, size and address of a direct read

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The same file, opened to be read past the page cache.
Descriptor open_direct(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
}

// Fills `out` but for what is behind the end of the file; `out` has whole units. Returns 0, or the
// errno; EIO for a file that ends before `bytes`.
int read_direct(int fd, int64_t offset, int64_t bytes, std::span<uint8_t> out) {
  int64_t have = 0;
  while (have < bytes) {
    const std::span<uint8_t> rest = out.subspan(static_cast<size_t>(have));
    const ssize_t n = ::pread(fd, rest.data(), rest.size(), offset + have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    have += n;
    // A read that ends within a unit is at the end of the file, or cannot be carried on.
    if (have < bytes && have % kDirectUnit != 0) return EIO;
  }
  return 0;
}

// Memory of this process for one object, and the file to be read into it.
class DirectReads {
 public:
  // Error: kUnsupported, kResourceExhausted.
  static Result<DirectReads> open(const ObjectFile& file) {
    Descriptor direct = open_direct(file.file.get());
    if (direct.get() < 0) {
      return Error{ErrorCode::kUnsupported, file.path + ": no direct reads of this file system",
                   ""};
    }
    const int64_t available = available_memory_bytes();
    if (file.section.bytes > available) {
      return Error{ErrorCode::kResourceExhausted,
                   file.path + ": expected " + std::to_string(file.section.bytes) +
                       " bytes of memory to read it into, found " + std::to_string(available),
                   ""};
    }
    TRY_ASSIGN(ObjectMapping memory, ObjectMapping::anonymous(file.section.bytes, file.path));
    return DirectReads(std::move(direct), std::move(memory));
  }

  int bring(ChunkRange range) {
    const int64_t whole = (range.bytes + kDirectUnit - 1) / kDirectUnit * kDirectUnit;
    if (const int code = memory_.populate(range.offset, whole); code != 0) return code;
    const std::span<uint8_t> out =
        memory_.writable().subspan(static_cast<size_t>(range.offset), static_cast<size_t>(whole));
    return read_direct(file_.get(), range.offset, range.bytes, out);
  }

  ObjectMapping& memory() { return memory_; }

 private:
  DirectReads(Descriptor file, ObjectMapping memory)
      : file_(std::move(file)), memory_(std::move(memory)) {}

  Descriptor file_;
  ObjectMapping memory_;
};

std::string percent(double fraction) {
  return std::to_string(std::lround(100 * fraction)) + " %";
}

// One call of attach().
class Attachment {
 public:
  Attachment(ObjectFile file, ObjectMapping mapping, const AttachOptions& options)
      : file_(std::move(file)),
        mapping_(std::move(mapping)),
        options_(options),
        is_brought_(static_cast<size_t>(file_.section.num_chunks())),
        loader_(file_, options.verify != AttachVerify::kLater) {}

  Result<Attached> run(Clock::time_point start) {
    report_.bytes = file_.section.bytes;
    report_.is_verified = options_.verify != AttachVerify::kLater;
    const CacheSample sample = sample_page_cache(mapping_, file_.section.num_chunks());
    report_.cached_fraction = sample.cached_fraction();
    const bool is_cold = report_.cached_fraction < kCountsAsCached;
    num_threads_ = is_cold ? std::max(kReadsInFlight, options_.num_threads) : options_.num_threads;
    if (auto chosen = choose(sample, is_cold); !chosen) return std::move(chosen).error();
    report_.map_s = seconds_since(start);
    return report_.way == AttachWay::kDirect ? load_direct() : load_mapped();
  }

 private:
  // Sets way, why and rates; measured chunks are brought then.
  Result<void> choose(const CacheSample& sample, bool is_cold) {
    if (options_.choice == AttachChoice::kDirect) {
      TRY_ASSIGN(DirectReads direct, DirectReads::open(file_));
      return take_direct(std::move(direct), "asked for");
    }
    if (options_.choice == AttachChoice::kMapped) return take_mapped("asked for");
    if (!is_cold) return take_mapped("it is in the page cache");
    if (static_cast<int64_t>(sample.cold_chunks.size()) < 2 * kMeasuredChunks) {
      return take_mapped("too little is to be read from storage to measure");
    }
    auto direct = DirectReads::open(file_);
    if (!direct) return take_mapped(direct.error().message);
    return measure(sample.cold_chunks, *std::move(direct));
  }

  // In a second turn, if there is as much again, mapping may show that the first one was chance.
  Result<void> measure(const std::vector<int64_t>& cold, DirectReads direct) {
    // What fails only here is no reason to refuse the object: mapping it tells.
    ChunkLoader direct_loader(file_, options_.verify != AttachVerify::kLater);
    std::vector<int64_t> mapped_chunks;
    std::vector<int64_t> direct_chunks;
    double ratio = 0;
    for (int turn = 0; turn < kMeasuredTurns; ++turn) {
      const auto begin = static_cast<size_t>(2 * kMeasuredChunks * turn);
      if (ratio >= kWorthMapping || begin + 2 * kMeasuredChunks > cold.size()) break;
      const auto from = cold.begin() + static_cast<ptrdiff_t>(begin);
      const double found = measure_turn({from, from + 2 * kMeasuredChunks}, direct, direct_loader,
                                        mapped_chunks, direct_chunks);
      ratio = std::max(ratio, found);
    }
    const std::string found = "mapping reaches " + percent(ratio) + " of direct reads";
    if (direct_loader.has_failed()) return take_mapped(direct_loader.error().message);
    if (ratio >= kWorthMapping || loader_.has_failed()) {
      mark_brought(mapped_chunks);
      return take_mapped(found);
    }
    // A page for each 4 KiB takes longer than what is gained, and is slower ever after.
    if (direct.memory().large_page_bytes() < static_cast<int64_t>(kMeasuredBytes / 2)) {
      mark_brought(mapped_chunks);
      return take_mapped(found + ", but there are no large pages to read into");
    }
    mark_brought(direct_chunks);
    return take_direct(std::move(direct), found);
  }

  // Brings every second of some chunks by mapping and the others by direct reads; adds them to the
  // lists. Returns the rate of mapping to that of direct reads.
  double measure_turn(const std::vector<int64_t>& chunks, DirectReads& direct,
                      ChunkLoader& direct_loader, std::vector<int64_t>& mapped_chunks,
                      std::vector<int64_t>& direct_chunks) {
    std::vector<int64_t> mapped_now;
    std::vector<int64_t> direct_now;
    for (size_t i = 0; i < chunks.size(); ++i) {
      (i % 2 == 0 ? mapped_now : direct_now).push_back(chunks[i]);
    }
    loader_.set_memory(mapping_.bytes());
    direct_loader.set_memory(direct.memory().bytes());
    const auto bring_direct = [&direct](ChunkRange range) { return direct.bring(range); };
    const double mapped_s = loader_.run(mapped_now, num_threads_, bring_mapped(), {});
    const double direct_s = direct_loader.run(direct_now, num_threads_, bring_direct, {});
    report_.mapped_bytes_per_s = kMeasuredBytes / mapped_s;
    report_.direct_bytes_per_s = kMeasuredBytes / direct_s;
    mapped_chunks.insert(mapped_chunks.end(), mapped_now.begin(), mapped_now.end());
    direct_chunks.insert(direct_chunks.end(), direct_now.begin(), direct_now.end());
    return direct_s / mapped_s;
  }

  Result<void> take_mapped(std::string why) {
    report_.way = AttachWay::kMapped;
    report_.why = std::move(why);
    return {};
  }

  Result<void> take_direct(DirectReads direct, std::string why) {
    report_.way = AttachWay::kDirect;
    report_.why = std::move(why);
    direct_.emplace(std::move(direct));
    return {};
  }

  Bring bring_mapped() const {
    return [this](ChunkRange range) { return mapping_.populate(range.offset, range.bytes); };
  }

  void mark_brought(const std::vector<int64_t>& chunks) {
    for (const int64_t chunk : chunks) is_brought_[static_cast<size_t>(chunk)] = true;
  }

  // What is still to be brought.
  std::vector<int64_t> rest() const {
    std::vector<int64_t> chunks;
    for (size_t i = 0; i < is_brought_.size(); ++i) {
      if (!is_brought_[i]) chunks.push_back(static_cast<int64_t>(i));
    }
    return chunks;
  }

  Result<void> load(Bytes memory, const Bring& bring) {
    loader_.set_memory(memory);
    const double seconds = loader_.run(rest(), num_threads_, bring, options_.progress);
    if (loader_.has_failed()) return loader_.error();
    report_.populate_s = seconds * loader_.bring_share();
    report_.verify_s = seconds - report_.populate_s;
    return {};
  }

  Result<Attached> load_mapped() {
    if (auto loaded = load(mapping_.bytes(), bring_mapped()); !loaded) {
      return std::move(loaded).error();
    }
    return Attached{Object(std::move(file_), std::move(mapping_)), std::move(report_)};
  }

  Result<Attached> load_direct() {
    ObjectMapping& memory = direct_->memory();
    const auto bring = [this](ChunkRange range) { return direct_->bring(range); };
    auto loaded = load(memory.bytes(), bring);
    if (loaded) loaded = memory.protect(file_.path);
    if (!loaded) return std::move(loaded).error();
    const int64_t large = memory.large_page_bytes();
    if (large < file_.section.bytes / 2) {
      report_.why += "; only " + std::to_string(large) + " bytes of it are in large pages";
    }
    return Attached{Object(std::move(file_), std::move(memory)), std::move(report_)};
  }

  ObjectFile file_;
  ObjectMapping mapping_;
  const AttachOptions& options_;
  std::vector<bool> is_brought_;
  ChunkLoader loader_;
  std::optional<DirectReads> direct_;
  int num_threads_ = 1;
  AttachReport report_;
};

// What a pinner handed out: it is there, and verified. Its pages are mapped when they are touched.
Attached sealed_copy(FromPinner given, double seconds) {
  AttachReport report;
  report.way = AttachWay::kSealed;
  report.why = "process " + std::to_string(given.pid) + " hands out a sealed copy";
  report.inherited_from = given.pid;
  report.bytes = given.object.section().bytes;
  report.map_s = seconds;
  return Attached{std::move(given.object), std::move(report)};
}

}  // namespace

const char* name_of(AttachWay way) {
  if (way == AttachWay::kSealed) return "sealed";
  return way == AttachWay::kDirect ? "direct" : "mapped";
}

Result<Attached> attach(const Store& store, const Section& section, const AttachOptions& options) {
  const auto start = Clock::now();
  const bool may_inherit =
      options.verify == AttachVerify::kInherited && options.choice != AttachChoice::kDirect;
  std::string refused;
  if (may_inherit) {
    auto sealed = from_pinner(store, section);
    if (sealed && *sealed) return sealed_copy(**std::move(sealed), seconds_since(start));
    if (!sealed) refused = sealed.error().message;
  }
  TRY_ASSIGN(ObjectFile file, store.open_object(section));
  TRY_ASSIGN(ObjectMapping mapping, ObjectMapping::map(file.file.get(), section.bytes, file.path));
  AttachOptions given = options;
  FoundPinner pinner;
  // What is read past the page cache is not what the pinner keeps in it.
  if (may_inherit) {
    pinner = find_pinner(store, file);
  } else if (options.verify == AttachVerify::kInherited) {
    pinner.reason = "direct reads were asked for";
  }
  if (pinner.record) {
    given.verify = AttachVerify::kLater;
    given.choice = AttachChoice::kMapped;
  }
  TRY_ASSIGN(Attached attached, Attachment(std::move(file), std::move(mapping), given).run(start));
  attached.report.not_inherited = refused.empty() ? pinner.reason : refused;
  if (pinner.record) {
    attached.report.inherited_from = pinner.record->pid;
    attached.report.why = "process " + std::to_string(pinner.record->pid) + " pins it";
  }
  return attached;
}

Result<Attached> attach(ObjectFile file, ObjectMapping mapping, const AttachOptions& options) {
  return Attachment(std::move(file), std::move(mapping), options).run(Clock::now());
}

}  // namespace stoker::snapshot
