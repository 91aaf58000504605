#include "server/batch_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/try.h"
#include "server/batch_line.h"
#include "server/line_reader.h"

namespace stoker {
namespace {

constexpr const char* kSecondSuffix = ".stoker-resume";  // of the file that takes OUT's place
constexpr int kMaxOpenTries = 10;  // a file that others replace in between is opened again

Error io_error(const std::string& path, const std::string& what) {
  return {ErrorCode::kIo, path + ": " + what + ": " + std::strerror(errno), ""};
}

bool is_same_file(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

bool is_at(const std::string& path, int descriptor) {
  struct stat of_path {};
  struct stat of_descriptor {};
  return stat(path.c_str(), &of_path) == 0 && fstat(descriptor, &of_descriptor) == 0 &&
         of_path.st_dev == of_descriptor.st_dev && of_path.st_ino == of_descriptor.st_ino;
}

bool is_regular(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// The rest of `bytes`, in as few writes as the system lets it be. Returns how many were written;
// fewer than all: errno says why.
size_t write_all(int descriptor, std::string_view bytes) {
  size_t num_written = 0;
  while (num_written < bytes.size()) {
    const ssize_t n = write(descriptor, bytes.data() + num_written, bytes.size() - num_written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    num_written += static_cast<size_t>(n);
  }
  return num_written;
}

// A pipe must not be opened for reading too: it would never be told that its reader has gone.
int open_file(const std::string& path) {
  struct stat status {};
  const bool is_other = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  const int mode = is_other ? O_WRONLY : O_RDWR | O_CREAT;
  return open(path.c_str(), mode | O_APPEND | O_CLOEXEC, 0666);
}

}  // namespace

BatchOutput::BatchOutput(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor), is_file_(is_regular(descriptor)) {}

BatchOutput::BatchOutput(BatchOutput&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_file_(other.is_file_),
      is_owned_(other.is_owned_),
      overwrite_(other.overwrite_),
      finished_(std::move(other.finished_)),
      num_answered_(other.num_answered_),
      num_again_(other.num_again_),
      whole_bytes_(other.whole_bytes_) {}

BatchOutput::~BatchOutput() {
  if (descriptor_ >= 0 && is_owned_) close(descriptor_);
}

Error BatchOutput::failed(const std::string& what) const {
  return io_error(path_, what);
}

Result<BatchOutput> BatchOutput::open(const BatchOutputOptions& options) {
  if (options.path == "-") {
    BatchOutput out("standard output", STDOUT_FILENO);
    out.is_owned_ = false;
    out.is_file_ = false;
    return out;
  }
  for (int i = 0; i < kMaxOpenTries; ++i) {
    const int descriptor = open_file(options.path);
    if (descriptor < 0) return io_error(options.path, "expected a file to write");
    BatchOutput out(options.path, descriptor);
    if (!out.is_file_) return out;
    if (options.input >= 0 && is_same_file(descriptor, options.input)) {
      return Error{ErrorCode::kInvalidArgument,
                   options.path + ": expected a file that is not the input, found the input", ""};
    }
    if (auto locked = out.lock(); !locked) return std::move(locked).error();
    // Another run that ended in between may have put a new file in the place of the locked one.
    if (!is_at(options.path, descriptor)) continue;
    char real_path[PATH_MAX];
    if (realpath(options.path.c_str(), real_path) != nullptr) out.path_ = real_path;
    out.overwrite_ = options.overwrite;
    if (options.overwrite) return out;
    if (auto scanned = out.scan(); !scanned) return std::move(scanned).error();
    return out;
  }
  return Error{ErrorCode::kOverloaded,
               options.path +
                   ": expected a file that stays in its place, found it replaced again "
                   "and again",
               ""};
}

Result<void> BatchOutput::lock() {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return failed("cannot lock it");
  return Error{ErrorCode::kOverloaded,
               path_ + ": expected a file that nobody else writes, found another run at it", ""};
}

// Reads what the file holds from before.
Result<void> BatchOutput::scan() {
  LineReader reader(descriptor_, kMaxBatchOutputLineBytes);
  bool is_cut = false;  // the line before; must be the last one
  for (int64_t number = 1;; ++number) {
    std::string_view text;
    const LineReader::State state = reader.next(text);
    if (state == LineReader::State::kEnd) return {};
    if (state == LineReader::State::kNeedsFill) {
      if (auto filled = reader.fill(); !filled) return std::move(filled).with(path_);
      --number;
      continue;
    }
    const BatchOutputLine line =
        state == LineReader::State::kLine ? parse_output_line(text) : BatchOutputLine{};
    const bool is_foreign = line.kind == BatchOutputLine::Kind::kForeign;
    if (is_cut || (is_foreign && !is_blank(text) && !is_cut_output_line(text))) {
      return Error{ErrorCode::kInvalidArgument,
                   path_ + ": expected the output of a batch to go on with, found line " +
                       std::to_string(is_cut ? number - 1 : number) +
                       ", which is no line of one; --overwrite begins anew",
                   ""};
    }
    is_cut = !reader.had_line_feed() || (is_foreign && !is_blank(text));
    if (is_cut) continue;
    whole_bytes_ = reader.offset();
    if (line.kind == BatchOutputLine::Kind::kFinished) {
      finished_.insert(line.custom_id);
      if (line.is_answer()) ++num_answered_;
    } else {
      ++num_again_;
    }
  }
}

Result<void> BatchOutput::begin() {
  if (!is_file_) return {};
  // Of a run that was killed while it wrote one: nobody else has the lock.
  const std::string second_path = path_ + kSecondSuffix;
  if (unlink(second_path.c_str()) != 0 && errno != ENOENT) {
    return io_error(second_path, "cannot remove it");
  }
  if (!overwrite_ && num_again_ > 0) return rewrite();
  if (ftruncate(descriptor_, whole_bytes_) != 0) return failed("cannot cut it");
  return {};
}

// The finished lines go to a second file, which then takes the place of this one at once.
Result<void> BatchOutput::rewrite() {
  const std::string second_path = path_ + kSecondSuffix;
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return failed("cannot read it");
  BatchOutput second(second_path, open_file(second_path));
  if (second.descriptor_ < 0) return io_error(second_path, "cannot make it");
  auto written = copy_finished(second.descriptor_);
  if (written && fchmod(second.descriptor_, status.st_mode & 07777) != 0) {
    written = second.failed("cannot set its mode");
  }
  if (written) written = second.finish();
  if (written) written = second.lock();
  if (written && rename(second_path.c_str(), path_.c_str()) != 0) {
    written = second.failed("cannot rename it");
  }
  if (!written) {
    unlink(second_path.c_str());
    return written;
  }
  std::swap(descriptor_, second.descriptor_);
  return {};
}

Result<void> BatchOutput::copy_finished(int to) const {
  if (lseek(descriptor_, 0, SEEK_SET) != 0) return failed("cannot read it");
  LineReader reader(descriptor_, kMaxBatchOutputLineBytes);
  while (reader.offset() < whole_bytes_) {
    std::string_view text;
    switch (reader.next(text)) {
      case LineReader::State::kNeedsFill:
        if (auto filled = reader.fill(); !filled) return std::move(filled).with(path_);
        break;
      case LineReader::State::kLine: {
        if (parse_output_line(text).kind != BatchOutputLine::Kind::kFinished) break;
        std::string line(text);
        line += '\n';
        if (write_all(to, line) < line.size()) return failed("cannot copy it");
        break;
      }
      case LineReader::State::kTooLong:
      case LineReader::State::kEnd:
        return Error{ErrorCode::kCorruptData, path_ + ": it was changed while it was read", ""};
    }
  }
  return {};
}

Result<void> BatchOutput::append(std::string_view line) {
  const size_t num_written = write_all(descriptor_, line);
  if (num_written == line.size()) return {};
  const Error error = failed("cannot write an answer");
  // The position is behind what was written. What cannot be taken back is repaired by the next run.
  if (num_written > 0 && is_regular(descriptor_)) {
    const off_t end = lseek(descriptor_, 0, SEEK_CUR);
    if (ftruncate(descriptor_, end - static_cast<off_t>(num_written)) != 0) {
      return error.with("a part of a line could not be taken back");
    }
  }
  return error;
}

Result<void> BatchOutput::finish() {
  // Pipes and terminals have nothing to wait for.
  if (fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP) return {};
  return failed("cannot write all of it");
}

}  // namespace stoker
