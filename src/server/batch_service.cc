#include "server/batch_service.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/try.h"

namespace stoker {
namespace {

constexpr size_t kMaxShownIdBytes = 100;
constexpr size_t kMaxStateBytes = size_t{1} << 20;
constexpr const char* kOutputSuffix = ".out";
constexpr std::chrono::milliseconds kCountsPeriod{500};

void tell_counts(BatchRecord& record, const BatchOutput& output, const BatchCounts& counts) {
  record.num_completed = output.num_answered() + counts.num_written - counts.num_failed;
  record.num_failed = output.num_finished() - output.num_answered() + counts.num_failed;
}

}  // namespace

Error no_such_batch(const std::string& id) {
  return {ErrorCode::kNotFound,
          "there is no batch " + json_quote(id.substr(0, kMaxShownIdBytes)) + " here", "batch_id"};
}

BatchService::BatchService(BatchServiceOptions options, StateFolder folder)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      stop_event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Result<std::unique_ptr<BatchService>> BatchService::open(BatchServiceOptions options) {
  TRY_ASSIGN(StateFolder folder, StateFolder::open(options.folder));
  std::unique_ptr<BatchService> service(new BatchService(std::move(options), std::move(folder)));
  if (service->stop_event_.get() < 0) return system_error("eventfd", "cannot be made");
  TRY_ASSIGN(service->files_, FileStore::open(service->folder_, {service->options_.max_files,
                                                                 service->options_.log}));
  if (auto read = service->read(); !read) return std::move(read).error();
  BatchService* raw = service.get();
  raw->intake_ = std::jthread([raw](const std::stop_token& stop) { raw->run_intake(stop); });
  raw->answers_ = std::jthread([raw](const std::stop_token& stop) { raw->run_answers(stop); });
  return service;
}

BatchService::~BatchService() {
  stop(std::chrono::milliseconds(0));
}

void BatchService::attach(Engine& engine, const std::vector<std::string>& served_model_names) {
  {
    const std::scoped_lock lock(mutex_);
    engine_ = &engine;
    served_model_names_ = served_model_names;
  }
  changed_.notify_all();
}

// ---- On disk

Result<void> BatchService::read() {
  TRY_ASSIGN(const std::vector<std::string> names, folder_.files().names());
  for (const std::string& name : names) {
    if (const auto parts = parse_description_name(name, kBatchPrefix))
      records_.push_back(read_record(name, *parts));
  }
  std::sort(records_.begin(), records_.end(), [](const BatchRecord& a, const BatchRecord& b) {
    return std::pair(a.created_at(), a.id) < std::pair(b.created_at(), b.id);
  });
  return remove_left_overs(names);
}

// A state that cannot be read stays as it is on disk, for who wants to look at it.
BatchRecord BatchService::read_record(const std::string& name, const DescriptionName& parts) const {
  const auto text = folder_.files().read_file(name, kMaxStateBytes);
  auto record = text ? parse_batch_state(*text, parts.id, parts.owner) : text.error();
  if (record) return *std::move(record);
  log(LogLevel::kWarning, "batch failed id=" + parts.id + " reason=" +
                              json_quote(folder_.path_of(name) + ": " + record.error().message));
  BatchRecord failed;
  failed.id = parts.id;
  failed.owner = parts.owner;
  failed.enter(BatchStatus::kValidating);
  failed.enter(BatchStatus::kFailed);
  failed.faults.push_back({"damaged_state", record.error().message});
  return failed;
}

// Outputs of batches that are over: the server ended before it removed them.
Result<void> BatchService::remove_left_overs(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    const std::string id = name.substr(0, name.find('.'));
    if (!is_stored_id(id, kBatchPrefix) || !name.starts_with(id + kOutputSuffix)) continue;
    const BatchRecord* record = find_record(id);
    if (record != nullptr && !is_over(record->status)) continue;
    if (auto removed = folder_.files().remove_file(name); !removed) return removed;
  }
  return {};
}

Result<void> BatchService::save(const BatchRecord& record) const {
  return folder_.save(description_name(record.id, record.owner), batch_state_text(record));
}

std::string BatchService::output_path(const std::string& id) const {
  return folder_.path_of(id + kOutputSuffix);
}

// ---- For clients

// Forgets the oldest batch that is over, if there are too many.
Result<void> BatchService::make_room() {
  if (records_.size() < options_.max_batches) return {};
  const auto oldest = std::find_if(records_.begin(), records_.end(),
                                   [](const BatchRecord& each) { return is_over(each.status); });
  if (oldest == records_.end()) {
    return Error{ErrorCode::kOverloaded,
                 "expected fewer than " + std::to_string(options_.max_batches) +
                     " unfinished batches, found as many; cancel some, or wait",
                 ""};
  }
  auto removed = folder_.files().remove_file(description_name(oldest->id, oldest->owner));
  if (removed) records_.erase(oldest);
  return removed;
}

Result<BatchRecord> BatchService::create(const std::string& owner, BatchOrder order) {
  const auto input = files_->find(order.input_file_id, owner);
  if (!input) {
    return Error{ErrorCode::kNotFound,
                 "input_file_id: expected a file that is here, found " +
                     json_quote(order.input_file_id.substr(0, kMaxShownIdBytes)),
                 "input_file_id"};
  }
  if (input->purpose != "batch") {
    return Error{ErrorCode::kInvalidArgument,
                 "input_file_id: expected a file of purpose batch, found one of " + input->purpose,
                 "input_file_id"};
  }
  BatchRecord record;
  record.owner = owner;
  record.order = std::move(order);
  record.output_id = files_->new_id();
  record.error_id = files_->new_id();
  record.enter(BatchStatus::kValidating);
  {
    const std::scoped_lock lock(mutex_);
    record.id = kBatchPrefix + ids_.next();
    if (auto made = make_room(); !made) return std::move(made).error();
    if (auto saved = save(record); !saved) return std::move(saved).error();
    records_.push_back(record);
  }
  changed_.notify_all();
  return record;
}

const BatchRecord* BatchService::find_record(const std::string& id) const {
  const auto found = std::find_if(records_.begin(), records_.end(),
                                  [&id](const BatchRecord& each) { return each.id == id; });
  return found == records_.end() ? nullptr : &*found;
}

BatchRecord* BatchService::find_record(const std::string& id) {
  return const_cast<BatchRecord*>(std::as_const(*this).find_record(id));
}

std::optional<BatchRecord> BatchService::find(const std::string& id,
                                              const std::string& owner) const {
  const std::scoped_lock lock(mutex_);
  const BatchRecord* record = find_record(id);
  if (record == nullptr || record->owner != owner) return std::nullopt;
  return *record;
}

std::vector<BatchRecord> BatchService::list(const std::string& owner) const {
  const std::scoped_lock lock(mutex_);
  std::vector<BatchRecord> found;
  std::copy_if(records_.rbegin(), records_.rend(), std::back_inserter(found),
               [&owner](const BatchRecord& each) { return each.owner == owner; });
  return found;
}

Result<BatchRecord> BatchService::cancel(const std::string& id, const std::string& owner) {
  const auto record = find(id, owner);
  if (!record) return no_such_batch(id);
  for (const BatchStatus from : {BatchStatus::kValidating, BatchStatus::kInProgress}) {
    auto cancelled =
        change(id, from, [](BatchRecord& each) { each.enter(BatchStatus::kCancelling); });
    if (!cancelled) continue;
    const std::scoped_lock lock(mutex_);
    if (running_id_ == id) eventfd_write(stop_event_.get(), 1);
    return *std::move(cancelled);
  }
  auto now = find(id, owner);
  if (!now) return no_such_batch(id);
  if (now->status == BatchStatus::kCancelling || now->status == BatchStatus::kCancelled)
    return *std::move(now);
  return Error{
      ErrorCode::kInvalidArgument,
      std::string("expected a batch that is validating or in progress, found one that is ") +
          to_string(now->status),
      "batch_id"};
}

Result<void> BatchService::remove_file(const StoredFile& file) {
  {
    const std::scoped_lock lock(mutex_);
    const auto reader =
        std::find_if(records_.begin(), records_.end(), [&file](const BatchRecord& each) {
          return !is_over(each.status) && each.order.input_file_id == file.id;
        });
    if (reader != records_.end()) {
      return Error{ErrorCode::kInvalidArgument,
                   "expected a file that nothing reads, found the input of " + reader->id +
                       "; cancel that first",
                   "file_id"};
    }
  }
  return files_->remove(file);
}

// ---- In the background

// Changes a batch that has the status `from`, on disk too; nothing: it has another one by now. What
// cannot be saved counts in memory: the next start then goes on from an earlier place.
std::optional<BatchRecord> BatchService::change(const std::string& id, BatchStatus from,
                                                const Change& edit) {
  std::optional<BatchRecord> changed;
  {
    const std::scoped_lock lock(mutex_);
    BatchRecord* record = find_record(id);
    if (record == nullptr || record->status != from) return std::nullopt;
    edit(*record);
    changed = *record;
    if (auto saved = save(*record); !saved)
      log(LogLevel::kError, "batch not saved id=" + id + " reason=" + saved.error().message);
  }
  changed_.notify_all();
  if (changed->status != from) {
    log(LogLevel::kInfo, "batch id=" + id + " status=" + to_string(changed->status) +
                             " total=" + std::to_string(changed->num_total) +
                             " completed=" + std::to_string(changed->num_completed) +
                             " failed=" + std::to_string(changed->num_failed));
  }
  return changed;
}

// The next batch to work on, once there is one; nothing: it is time to end. Its id is put where
// `taken` says, so that no other thread takes it.
std::optional<BatchRecord> BatchService::next(const std::stop_token& stop, Choice is_due,
                                              std::string* taken) {
  std::unique_lock lock(mutex_);
  auto found = records_.end();
  const auto is_found = [&] {
    found = std::find_if(records_.begin(), records_.end(),
                         [&](const BatchRecord& each) { return (this->*is_due)(each); });
    return found != records_.end();
  };
  if (!changed_.wait(lock, stop, is_found) || stop.stop_requested()) return std::nullopt;
  if (taken != nullptr) {
    *taken = found->id;
    eventfd_t ignored = 0;
    eventfd_read(stop_event_.get(), &ignored);
  }
  return *found;
}

// What fails for want of memory is that batch's failure.
void BatchService::guard(const BatchRecord& record, void (BatchService::*work)(BatchRecord)) {
  try {
    (this->*work)(record);
  } catch (const std::exception& exception) {
    const auto fail = [&exception](BatchRecord& each) {
      each.faults.push_back({"server_error", exception.what()});
      each.enter(BatchStatus::kFailed);
    };
    for (const BatchStatus from : {BatchStatus::kValidating, BatchStatus::kInProgress,
                                   BatchStatus::kFinalizing, BatchStatus::kCancelling})
      change(record.id, from, fail);
  }
}

void BatchService::run_intake(const std::stop_token& stop) {
  while (const auto record = next(stop, &BatchService::needs_intake, nullptr))
    guard(*record, &BatchService::take_in);
}

void BatchService::run_answers(const std::stop_token& stop) {
  while (const auto record = next(stop, &BatchService::needs_answers, &running_id_)) {
    guard(*record, &BatchService::answer);
    {
      const std::scoped_lock lock(mutex_);
      running_id_.clear();
    }
    changed_.notify_all();
  }
}

bool BatchService::needs_intake(const BatchRecord& record) const {
  return record.status == BatchStatus::kValidating ||
         (record.status == BatchStatus::kCancelling && record.id != running_id_);
}

bool BatchService::needs_answers(const BatchRecord& record) const {
  return record.status == BatchStatus::kFinalizing ||
         (record.status == BatchStatus::kInProgress && engine_ != nullptr && !has_failed_);
}

void BatchService::take_in(BatchRecord record) {
  if (record.status == BatchStatus::kValidating) return validate(record);
  finish(std::move(record), BatchStatus::kCancelled, std::nullopt);
}

Result<BatchInput> BatchService::look_through(const BatchRecord& record) const {
  const auto file = files_->find(record.order.input_file_id, record.owner);
  if (!file) return Error{ErrorCode::kNotFound, "the input file is not here any more", ""};
  TRY_ASSIGN(const Descriptor input, files_->open_content(*file));
  return check_batch_input(input.get(), record.order.route, options_.max_line_bytes,
                           [this] { return is_finishing_.load(); });
}

void BatchService::validate(const BatchRecord& record) {
  auto input = look_through(record);
  if (!input && input.error().code == ErrorCode::kCancelled) return;
  if (!input) input = BatchInput{0, {{"invalid_input_file", input.error().message}}};
  change(record.id, BatchStatus::kValidating, [&input](BatchRecord& each) {
    each.num_total = input->num_requests;
    each.faults = input->faults;
    each.enter(input->faults.empty() ? BatchStatus::kInProgress : BatchStatus::kFailed);
  });
}

void BatchService::answer(BatchRecord record) {
  if (record.status == BatchStatus::kInProgress) {
    if (unix_seconds() > record.expires_at()) {
      return finish(std::move(record), BatchStatus::kFailed,
                    BatchFault{"batch_expired", "its completion window is over"});
    }
    if (auto done = run(record); !done) {
      const ErrorCode code = done.error().code;
      if (code == ErrorCode::kCancelled) return;  // by its client, or it goes on at the next start
      if (code != ErrorCode::kInternal) {
        return finish(std::move(record), BatchStatus::kFailed,
                      BatchFault{"server_error", done.error().message});
      }
      log(LogLevel::kError,
          "batch interrupted id=" + record.id + " reason=" + done.error().message);
      const std::scoped_lock lock(mutex_);
      has_failed_ = true;
      return;
    }
    auto finalizing = change(record.id, BatchStatus::kInProgress,
                             [](BatchRecord& each) { each.enter(BatchStatus::kFinalizing); });
    if (!finalizing) return;  // cancelled in the last moment
    record = *std::move(finalizing);
  }
  finish(std::move(record), BatchStatus::kCompleted, std::nullopt);
}

// One run over the lines that have no answer yet.
Result<void> BatchService::run(const BatchRecord& record) {
  const auto file = files_->find(record.order.input_file_id, record.owner);
  if (!file) return Error{ErrorCode::kNotFound, "the input file is not here any more", ""};
  TRY_ASSIGN(const Descriptor input, files_->open_content(*file));
  TRY_ASSIGN(BatchOutput output, BatchOutput::open({output_path(record.id), false, input.get()}));
  Batch batch(*engine_, input.get(), output, options_of(record, output));
  const auto set_running = [this](Batch* running) {
    const std::scoped_lock lock(mutex_);
    running_batch_ = running;
  };
  set_running(&batch);
  auto done = batch.run();
  set_running(nullptr);
  change(record.id, BatchStatus::kInProgress,
         [&](BatchRecord& each) { tell_counts(each, output, batch.counts()); });
  return done;
}

BatchOptions BatchService::options_of(const BatchRecord& record, const BatchOutput& output) {
  BatchOptions options;
  options.served_model_names = served_model_names_;
  options.max_in_flight = options_.max_in_flight;
  options.max_line_bytes = options_.max_line_bytes;
  options.priority = kBackgroundPriority;
  options.stop_descriptor = stop_event_.get();
  options.mode = [this] { return mode(); };
  options.max_lonely_tries = 0;
  options.log = options_.log;
  options.progress = [this, &output, id = record.id](const BatchCounts& counts) {
    const std::scoped_lock lock(mutex_);
    if (BatchRecord* running = find_record(id)) tell_counts(*running, output, counts);
  };
  options.progress_period = kCountsPeriod;
  return options;
}

BatchMode BatchService::mode() const {
  if (is_finishing_) return BatchMode::kFinish;
  return is_paused_ ? BatchMode::kHold : BatchMode::kRun;
}

// Its answers so far become files, and it is over. Where that cannot be done it has failed.
void BatchService::finish(BatchRecord record, BatchStatus end, std::optional<BatchFault> fault) {
  const BatchStatus from = record.status;
  if (auto published = publish_batch_output(output_path(record.id), *files_, record); !published) {
    end = BatchStatus::kFailed;
    fault = {"server_error", published.error().message};
  }
  const auto finished = change(record.id, from, [&](BatchRecord& each) {
    each.num_completed = record.num_completed;
    each.num_failed = record.num_failed;
    each.has_output = record.has_output;
    each.has_errors = record.has_errors;
    if (fault) each.faults.push_back(*fault);
    each.enter(end);
  });
  if (!finished) return;  // cancelled in between: that finishes it again
  if (auto removed = folder_.files().remove_file(record.id + kOutputSuffix); !removed)
    log(LogLevel::kWarning, "batch output not removed reason=" + removed.error().message);
}

void BatchService::stop(std::chrono::milliseconds grace) {
  is_finishing_ = true;
  intake_.request_stop();
  answers_.request_stop();
  {
    std::unique_lock lock(mutex_);
    if (running_batch_ != nullptr) running_batch_->wake();
    changed_.wait_for(lock, grace, [this] { return running_id_.empty(); });
    eventfd_write(stop_event_.get(), 1);
  }
  if (intake_.joinable()) intake_.join();
  if (answers_.joinable()) answers_.join();
}

void BatchService::log(LogLevel level, const std::string& line) const {
  if (options_.log) options_.log(level, line);
}

}  // namespace stoker
