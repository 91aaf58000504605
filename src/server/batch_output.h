// The output of a batch: a file to which whole lines are added, or standard output. Owns the file's
// lock, its repair after a run that was killed, and what is known of the answers it has already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/id_set.h"
#include "stoker/result.h"

namespace stoker {

/// No line of an output is longer.
inline constexpr size_t kMaxBatchOutputLineBytes = size_t{1} << 30;

struct BatchOutputOptions {
  std::string path;        ///< "-": standard output
  bool overwrite = false;  ///< begin anew, whatever the file holds
  int input = -1;          ///< what is read must not be the file that is written
};

/// One output. A regular file is gone on with: finished answers stay, everything else in it is made
/// again. Another kind of file (a pipe, a terminal) is only written to. Used by one thread.
class BatchOutput {
 public:
  /// Opens or makes the file, locks it and reads what it holds; changes nothing in it. Errors:
  /// kInvalidArgument for a file that is no output of a batch, or that is the input; kOverloaded
  /// while another run writes it; kIo.
  static Result<BatchOutput> open(const BatchOutputOptions& options);

  BatchOutput(BatchOutput&& other) noexcept;
  BatchOutput& operator=(BatchOutput&&) = delete;
  ~BatchOutput();

  /// Whether the request has its final answer in the file.
  bool is_finished(std::string_view custom_id) const { return finished_.contains(custom_id); }
  int64_t num_finished() const { return finished_.size(); }
  int64_t num_answered() const { return num_answered_; }  ///< of these, not refused

  /// Takes out of the file what is to be made again. To be called once, before append(). The file
  /// is whole at every moment: what has to go from its middle goes by way of a second file, which
  /// takes its place. Errors: kIo, with the file as it was; kCorruptData.
  Result<void> begin();

  /// Adds a line, which holds its line feed, with one write. After an error the file does not hold
  /// a part of it. Errors: kIo.
  Result<void> append(std::string_view line);

  /// Waits until the disk has everything. Errors: kIo.
  Result<void> finish();

 private:
  BatchOutput(std::string path, int descriptor);

  Result<void> lock();
  Result<void> scan();
  Result<void> rewrite();
  Result<void> copy_finished(int to) const;
  Error failed(const std::string& what) const;

  std::string path_;  // of a file: absolute, without links
  int descriptor_;
  bool is_file_ = false;
  bool is_owned_ = true;  // the descriptor is closed with this object
  bool overwrite_ = false;
  IdSet finished_;
  int64_t num_answered_ = 0;
  int64_t num_again_ = 0;    // lines that are to be made again
  int64_t whole_bytes_ = 0;  // without a line that was cut
};

}  // namespace stoker
