#include "server/batch_work.h"

#include <fcntl.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/descriptor.h"
#include "base/folder.h"
#include "base/try.h"
#include "server/batch_line.h"
#include "server/batch_output.h"
#include "server/id_set.h"
#include "server/identity.h"
#include "server/line_reader.h"

namespace stoker {
namespace {

constexpr size_t kMaxFaults = 20;  // that are told of an input
constexpr size_t kMaxShownCustomIdBytes = 200;
constexpr size_t kWriteBytes = size_t{256} << 10;

using LineHandler = std::function<Result<void>(LineReader::State state, std::string_view text)>;

// All lines of a file, those that are too long too.
Result<void> for_each_line(int descriptor, size_t max_line_bytes, const LineHandler& take) {
  LineReader reader(descriptor, max_line_bytes);
  while (true) {
    std::string_view text;
    const LineReader::State state = reader.next(text);
    if (state == LineReader::State::kEnd) return {};
    if (state == LineReader::State::kNeedsFill) {
      if (auto filled = reader.fill(); !filled) return filled;
    } else if (auto taken = take(state, text); !taken) {
      return taken;
    }
  }
}

// What is wrong with one line of an input, or nothing.
std::optional<BatchFault> fault_of(std::string_view text, Route route, IdSet& seen) {
  const BatchLine line = parse_batch_line(text);
  if (line.error) return BatchFault{"invalid_line", line.error->message, 0, line.error->param};
  if (!seen.insert(*line.custom_id)) {
    return BatchFault{"duplicate_custom_id",
                      "expected a custom_id that no line before has, found " +
                          json_quote(line.custom_id->substr(0, kMaxShownCustomIdBytes)),
                      0, "custom_id"};
  }
  if (line.route == route) return std::nullopt;
  return BatchFault{"mismatched_endpoint",
                    std::string("expected ") + batch_endpoint(route) +
                        ", which is the endpoint of the batch, found " + batch_endpoint(line.route),
                    0, "url"};
}

// One of the files that an output becomes; made with its first line.
class PublishedFile {
 public:
  PublishedFile(FileStore& files, std::string id) : files_(files), id_(std::move(id)) {}

  Result<void> add(std::string_view line) {
    if (!draft_) {
      TRY_ASSIGN(FileDraft draft, files_.begin(id_));
      draft_.emplace(std::move(draft));
    }
    ++num_lines_;
    pending_.append(line).append("\n");
    return pending_.size() < kWriteBytes ? Result<void>() : write();
  }

  /// False: there were no lines, and there is no file.
  Result<bool> publish(const std::string& owner, std::string filename) {
    if (!draft_) return false;
    if (auto written = write(); !written) return std::move(written).error();
    const auto file = files_.publish(
        *std::move(draft_), {"", owner, std::move(filename), "batch_output", 0, unix_seconds()});
    if (!file) return file.error();
    return true;
  }

  int64_t num_lines() const { return num_lines_; }

 private:
  Result<void> write() {
    auto written = draft_->append(pending_);
    pending_.clear();
    return written;
  }

  FileStore& files_;
  const std::string id_;
  std::optional<FileDraft> draft_;
  std::string pending_;
  int64_t num_lines_ = 0;
};

// A run that was killed may have left a part of a line at the end: that is neither.
Result<void> split_output(int descriptor, PublishedFile& output, PublishedFile& errors) {
  const auto take = [&](LineReader::State state, std::string_view text) -> Result<void> {
    if (state == LineReader::State::kTooLong) return {};
    const BatchOutputLine line = parse_output_line(text);
    if (line.kind == BatchOutputLine::Kind::kForeign) return {};
    return line.is_answer() ? output.add(text) : errors.add(text);
  };
  return for_each_line(descriptor, kMaxBatchOutputLineBytes, take);
}

}  // namespace

Result<BatchInput> check_batch_input(int descriptor, Route route, size_t max_line_bytes,
                                     const std::function<bool()>& is_stopped) {
  BatchInput input;
  IdSet seen;
  int64_t number = 0;
  const auto take = [&](LineReader::State state, std::string_view text) -> Result<void> {
    if (is_stopped()) return Error{ErrorCode::kCancelled, "interrupted", ""};
    ++number;
    if (input.faults.size() >= kMaxFaults || is_blank(text)) return {};
    ++input.num_requests;
    std::optional<BatchFault> fault;
    if (state == LineReader::State::kTooLong) {
      const std::string limit = std::to_string(max_line_bytes);
      fault = BatchFault{"line_too_long", "expected at most " + limit + " bytes, found more"};
    } else {
      fault = fault_of(text, route, seen);
    }
    if (!fault) return {};
    fault->line = number;
    input.faults.push_back(*std::move(fault));
    return {};
  };
  if (auto read = for_each_line(descriptor, max_line_bytes, take); !read)
    return std::move(read).error();
  if (input.num_requests == 0)
    input.faults.push_back({"empty_file", "expected at least one request, found none"});
  return input;
}

Result<void> publish_batch_output(const std::string& path, FileStore& files, BatchRecord& record) {
  PublishedFile output(files, record.output_id);
  PublishedFile errors(files, record.error_id);
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (descriptor.get() < 0 && errno != ENOENT) return system_error(path, "cannot be opened");
  if (descriptor.get() >= 0) {
    if (auto split = split_output(descriptor.get(), output, errors); !split)
      return std::move(split).with(path);
  }
  TRY_ASSIGN(record.has_output, output.publish(record.owner, record.id + "_output.jsonl"));
  TRY_ASSIGN(record.has_errors, errors.publish(record.owner, record.id + "_error.jsonl"));
  record.num_completed = output.num_lines();
  record.num_failed = errors.num_lines();
  return {};
}

}  // namespace stoker
