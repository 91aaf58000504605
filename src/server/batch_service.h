// Batches that run in the background of a server: their states on disk, one that is answered at a
// time, and what becomes of them when the server ends in the middle. The lines themselves are
// Batch's, the same as those of `stoker run-batch`. docs/batch.md says what clients see.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "server/batch.h"
#include "server/batch_record.h"
#include "server/batch_work.h"
#include "server/file_store.h"
#include "server/state_folder.h"
#include "stoker/engine.h"

namespace stoker {

struct BatchServiceOptions {
  std::string folder;
  size_t max_files = 1000;
  size_t max_batches = 1000;  ///< whose states are kept; beyond them old ones are forgotten
  size_t max_in_flight = 8;   ///< requests of a batch that are in the engine at the same time
  size_t max_line_bytes = size_t{64} << 20;
  LogSink log = {};  ///< may be null; called from any thread
};

/// What is told of a batch that the asker has not: kNotFound.
Error no_such_batch(const std::string& id);

/// Its functions may be called from any thread; those that change something wait for the disk.
class BatchService {
 public:
  /// Takes the folder and reads what is there; what was under way goes on once an engine is
  /// attached. A state that cannot be read is that of a failed batch. Errors: those of StateFolder.
  static Result<std::unique_ptr<BatchService>> open(BatchServiceOptions options);

  ~BatchService();  ///< stop(0)
  BatchService(const BatchService&) = delete;
  BatchService& operator=(const BatchService&) = delete;

  /// Answers with this engine from now on. Once; the engine must outlive the service.
  void attach(Engine& engine, const std::vector<std::string>& served_model_names);

  FileStore& files() { return *files_; }

  /// Errors: kNotFound for an input that is no file of the owner, kInvalidArgument for one that is
  /// no input, kOverloaded while too many are unfinished; as system_error.
  Result<BatchRecord> create(const std::string& owner, BatchOrder order);
  /// The batch of that owner, or nothing.
  std::optional<BatchRecord> find(const std::string& id, const std::string& owner) const;
  /// All of that owner, the latest first.
  std::vector<BatchRecord> list(const std::string& owner) const;
  /// Ends it now; its answers so far become files soon. Cancelling once more changes nothing.
  /// Errors: kNotFound; kInvalidArgument where nothing of it is left to be done.
  Result<BatchRecord> cancel(const std::string& id, const std::string& owner);
  /// Removes a file. Errors: kInvalidArgument while it is the input of a batch that goes on.
  Result<void> remove_file(const StoredFile& file);

  /// Whether requests are held back: those in the engine go on. Does not wait.
  void set_paused(bool is_paused) { is_paused_ = is_paused; }

  /// Takes no more lines, waits up to `grace` for those in the engine, and ends. What is left goes
  /// on when the folder is opened again.
  void stop(std::chrono::milliseconds grace);

 private:
  using Change = std::function<void(BatchRecord&)>;
  using Choice = bool (BatchService::*)(const BatchRecord&) const;

  explicit BatchService(BatchServiceOptions options, StateFolder folder);

  Result<void> read();
  BatchRecord read_record(const std::string& name, const DescriptionName& parts) const;
  Result<void> remove_left_overs(const std::vector<std::string>& names) const;
  Result<void> save(const BatchRecord& record) const;
  Result<void> make_room();
  BatchRecord* find_record(const std::string& id);
  const BatchRecord* find_record(const std::string& id) const;
  std::optional<BatchRecord> change(const std::string& id, BatchStatus from, const Change& edit);

  std::optional<BatchRecord> next(const std::stop_token& stop, Choice is_due, std::string* taken);
  void run_intake(const std::stop_token& stop);
  void run_answers(const std::stop_token& stop);
  void guard(const BatchRecord& record, void (BatchService::*work)(BatchRecord));
  bool needs_intake(const BatchRecord& record) const;
  bool needs_answers(const BatchRecord& record) const;
  void take_in(BatchRecord record);
  void validate(const BatchRecord& record);
  Result<BatchInput> look_through(const BatchRecord& record) const;
  void answer(BatchRecord record);
  Result<void> run(const BatchRecord& record);
  BatchOptions options_of(const BatchRecord& record, const BatchOutput& output);
  BatchMode mode() const;
  void finish(BatchRecord record, BatchStatus end, std::optional<BatchFault> fault);
  std::string output_path(const std::string& id) const;
  void log(LogLevel level, const std::string& line) const;

  const BatchServiceOptions options_;
  const StateFolder folder_;
  std::unique_ptr<FileStore> files_;
  Descriptor stop_event_;  // readable: the run ends
  std::atomic<bool> is_paused_{false};
  std::atomic<bool> is_finishing_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::vector<BatchRecord> records_;  // in the order in which they were made
  IdSource ids_;
  Engine* engine_ = nullptr;
  std::vector<std::string> served_model_names_;
  std::string running_id_;          // that answer() has; may be empty
  Batch* running_batch_ = nullptr;  // of it
  bool has_failed_ = false;         // the engine: nothing more is run

  std::jthread intake_;   // looks at inputs, and ends what was cancelled
  std::jthread answers_;  // runs one batch after the other
};

}  // namespace stoker
