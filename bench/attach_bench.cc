// How fast an object of the store gets into memory, beside what this machine reads in the same run:
//
//     attach_bench FOLDER [MIB]
//
// makes a store with one object of random bytes in FOLDER, which must be on a disk, and removes it
// again. Each figure is the median of some turns. Nothing else should run meanwhile.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/machine.h"
#include "bench/rows.h"
#include "snapshot/attach.h"
#include "snapshot/pin.h"

namespace stoker::bench {
namespace {

using snapshot::AttachChoice;
using snapshot::Attached;
using snapshot::kChunkBytes;

constexpr int kTurns = 5;
constexpr int kReadsInFlight = 8;
constexpr int kProcesses = 8;

class AttachBench {
 public:
  AttachBench(const std::filesystem::path& folder, int64_t bytes)
      : bytes_(bytes), dir_(folder), store_(open_store(folder)), section_(make()) {}

  void run() {
    std::printf("%lld MiB, %d threads\n\n", static_cast<long long>(bytes_ >> 20), num_threads_);
    std::printf("%-34s %10s  %s\n", "what", "GB/s", "seconds of map, populate, verify");
    read_memory();
    read_file("pread, from the page cache", false, num_threads_, 0);
    read_file("pread, from storage", true, kReadsInFlight, 0);
    read_file("direct read, from storage", true, kReadsInFlight, O_DIRECT);
    attach_all("attach, cached", AttachChoice::kMeasured, false);
    attach_all("attach, from storage, measured", AttachChoice::kMeasured, true);
    attach_all("attach, from storage, mapped", AttachChoice::kMapped, true);
    attach_all("attach, from storage, direct", AttachChoice::kDirect, true);
    attach_pinned();
    attach_sealed();
    share();
  }

 private:
  static snapshot::Store open_store(const std::filesystem::path& folder) {
    auto store = snapshot::Store::open(folder.string());
    CHECK(store, "a store can be made there");
    return *std::move(store);
  }

  snapshot::Section make() const {
    auto writer = store_.create("weights", bytes_);
    CHECK(writer, "there is room");
    std::vector<uint8_t> chunk(static_cast<size_t>(kChunkBytes));
    uint64_t state = 1;
    for (int64_t at = 0; at < bytes_; at += kChunkBytes) {
      for (size_t i = 0; i < chunk.size(); i += 8) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::copy_n(reinterpret_cast<const uint8_t*>(&state), 8, &chunk[i]);
      }
      CHECK(writer->write(at, chunk), "it can be written");
    }
    const auto section = writer->publish(snapshot::digest_of("attach_bench"), num_threads_);
    CHECK(section, "it can be published");
    return *section;
  }

  std::string path() const { return (dir_ / "objects" / section_.object()).string(); }

  void evict() const {
    const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0, "a file can be evicted");
  }

  void print(const char* what, double seconds, const std::string& note) const {
    std::printf("%-34s %10.2f  %s\n", what, static_cast<double>(bytes_) / seconds / 1e9,
                note.c_str());
  }

  Attached attached(AttachChoice choice,
                    snapshot::AttachVerify verify = snapshot::AttachVerify::kFull) const {
    snapshot::AttachOptions options;
    options.verify = verify;
    options.num_threads = num_threads_;
    options.choice = choice;
    auto got = snapshot::attach(store_, section_, options);
    CHECK(got, "an object can be attached");
    return *std::move(got);
  }

  void read_memory() const {
    WorkerPool pool(num_threads_);
    const Attached got = attached(AttachChoice::kMapped);
    std::vector<double> seconds;
    for (int i = 0; i < kTurns; ++i) {
      seconds.push_back(read_seconds(pool, got.object.bytes().data(), bytes_ / 4096 * 4096));
    }
    print("one pass over it in memory", median(seconds), "");
  }

  void read_file(const char* what, bool is_cold, int num_threads, int flags) const {
    uint8_t* const memory = map_memory(bytes_ + kChunkBytes);
    std::vector<double> seconds;
    for (int i = 0; i < kTurns; ++i) {
      if (is_cold) evict();
      const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC | flags));
      seconds.push_back(seconds_of([&] {
        snapshot::for_each_chunk(section_.num_chunks(), num_threads, {}, [&](int64_t i_chunk, int) {
          const int64_t at = i_chunk * kChunkBytes;
          CHECK(::pread(file.get(), memory + at, kChunkBytes, at) > 0, "a file can be read");
        });
      }));
    }
    print(what, median(seconds), "");
  }

  // What is evicted stays, for it is locked.
  void attach_pinned() const {
    const auto pinned = snapshot::pin_objects(store_, {section_}, num_threads_);
    if (!pinned) {
      std::printf("%-34s skipped: %s\n", "attach, pinned", pinned.error().message.c_str());
      return;
    }
    attach_all("attach, pinned, verified", AttachChoice::kMeasured, true);
    attach_all("attach, pinned, inherited", AttachChoice::kMeasured, true,
               snapshot::AttachVerify::kInherited);
  }

  void attach_sealed() const {
    int ends[2];
    CHECK(::pipe(ends) == 0, "a pipe can be made");
    const Descriptor stop(ends[0]);
    Descriptor stopper(ends[1]);
    const auto pinned = snapshot::pin_sealed(store_, {section_}, num_threads_);
    CHECK(pinned, "a copy can be sealed");
    const std::jthread waits([&] { CHECK(pinned->wait(stop.get()), "it can be waited for"); });
    attach_all("attach, sealed", AttachChoice::kMeasured, true, snapshot::AttachVerify::kInherited);
    { const Descriptor closes = std::move(stopper); }
  }

  void attach_all(const char* what, AttachChoice choice, bool is_cold,
                  snapshot::AttachVerify verify = snapshot::AttachVerify::kFull) const {
    std::vector<double> seconds;
    std::string note;
    for (int i = 0; i < kTurns; ++i) {
      if (is_cold) evict();
      seconds.push_back(seconds_of([&] {
        const snapshot::AttachReport report = attached(choice, verify).report;
        char text[96];
        std::snprintf(text, sizeof text, "%.4f, %.4f, %.4f; ", report.map_s, report.populate_s,
                      report.verify_s);
        note = text + std::string(name_of(report.way)) + ": " + report.why;
      }));
    }
    print(what, median(seconds), note);
  }

  // The proportional share of this process in what it has mapped of the object.
  int64_t share_bytes() const {
    std::ifstream smaps("/proc/self/smaps");
    std::string line;
    bool is_ours = false;
    int64_t kib = 0;
    while (std::getline(smaps, line)) {
      long long value = 0;
      if (line.find('-') < line.find(' ')) is_ours = line.ends_with(section_.object());
      if (is_ours && std::sscanf(line.c_str(), "Pss: %lld kB", &value) == 1) kib += value;
    }
    return kib << 10;
  }

  // Processes that attach at once: their shares together are one copy.
  void share() const {
    int ends[2];
    int go[2];
    CHECK(::pipe(ends) == 0 && ::pipe(go) == 0, "pipes can be made");
    std::vector<pid_t> children;
    std::fflush(stdout);
    for (int i = 0; i < kProcesses; ++i) {
      const pid_t child = ::fork();
      CHECK(child >= 0, "a process can be made");
      if (child == 0) {
        const Attached got = attached(AttachChoice::kMeasured);
        char byte = 'x';
        bool is_fine = ::write(ends[1], &byte, 1) == 1 && ::read(go[0], &byte, 1) == 1;
        const int64_t bytes = share_bytes();
        is_fine = is_fine && ::write(ends[1], &bytes, sizeof bytes) == sizeof bytes;
        is_fine = is_fine && ::read(go[0], &byte, 1) == 1;
        ::_exit(is_fine ? 0 : 1);
      }
      children.push_back(child);
    }
    char bytes[kProcesses] = {};
    for (char& byte : bytes) CHECK(::read(ends[0], &byte, 1) == 1, "a process attaches");
    CHECK(::write(go[1], bytes, kProcesses) == kProcesses, "told");
    int64_t sum = 0;
    for (int i = 0; i < kProcesses; ++i) {
      int64_t part = 0;
      CHECK(::read(ends[0], &part, sizeof part) == sizeof part, "a process tells its share");
      sum += part;
    }
    CHECK(::write(go[1], bytes, kProcesses) == kProcesses, "told");
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    std::printf("\n%d processes at once: shares (Pss) of %.2f objects together\n", kProcesses,
                static_cast<double>(sum) / static_cast<double>(bytes_));
  }

  const int num_threads_ = usable_cores();
  const int64_t bytes_;
  const std::filesystem::path dir_;
  const snapshot::Store store_;
  const snapshot::Section section_;
};

}  // namespace
}  // namespace stoker::bench

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: attach_bench FOLDER [MIB]\n");
    return 2;
  }
  const int64_t mib = argc == 3 ? std::atoll(argv[2]) : 512;
  if (mib < 1 || mib > 1 << 20) {
    std::fprintf(stderr, "attach_bench: expected 1 to 1048576 MiB\n");
    return 2;
  }
  std::string folder = std::string(argv[1]) + "/attach_bench_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "attach_bench: %s: no folder can be made in it\n", argv[1]);
    return 3;
  }
  stoker::bench::AttachBench(folder, mib << 20).run();
  std::filesystem::remove_all(folder);
  return 0;
}
