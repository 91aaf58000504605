// The files of /v1/files on disk: contents under their ids, each with a description beside it. What
// has no description was never finished, and goes when the store is opened.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "server/identity.h"
#include "server/state_folder.h"
#include "stoker/log.h"
#include "stoker/result.h"

namespace stoker {

/// One file, but for its content. A plain value.
struct StoredFile {
  std::string id;
  std::string owner;     ///< the name of a key; empty: whoever shows none
  std::string filename;  ///< as its maker called it; never a path of ours
  std::string purpose;   ///< "batch" or "batch_output"
  int64_t num_bytes = 0;
  int64_t created_at = 0;  ///< seconds of the Unix clock
};

/// As OpenAI's API tells a file.
std::string stored_file_json(const StoredFile& file);

/// A file that is being written; removed unless FileStore::publish gets it. Used by one thread.
class FileDraft {
 public:
  FileDraft(const StateFolder& folder, std::string id, Descriptor content);
  FileDraft(FileDraft&& other) noexcept;
  FileDraft& operator=(FileDraft&&) = delete;
  ~FileDraft();

  /// Adds to its content. Errors: as system_error.
  Result<void> append(std::string_view bytes);
  int64_t num_bytes() const { return num_bytes_; }

 private:
  friend class FileStore;

  const StateFolder* folder_;  // null: there is nothing to remove
  std::string id_;
  Descriptor content_;
  int64_t num_bytes_ = 0;
};

struct FileStoreOptions {
  size_t max_files = 1000;  ///< beyond them no upload begins
  LogSink log = {};         ///< may be null
};

/// Its functions may be called from any thread.
class FileStore {
 public:
  /// Reads what is there. A description that is damaged is told to the log and left alone. The
  /// folder must outlive the store. Errors: as system_error.
  static Result<std::unique_ptr<FileStore>> open(const StateFolder& folder,
                                                 FileStoreOptions options);

  std::string new_id();

  /// Begins an upload. Errors: kOverloaded while there are as many files as may be; as
  /// system_error.
  Result<FileDraft> begin_upload();
  /// Begins a file of that id, in the place of what has it.
  Result<FileDraft> begin(const std::string& id) const;
  /// Makes it a file of `about`, but for its id and size. On disk when this returns.
  Result<StoredFile> publish(FileDraft draft, StoredFile about);

  /// The file of that owner, or nothing.
  std::optional<StoredFile> find(const std::string& id, const std::string& owner) const;
  /// All of that owner, the latest first.
  std::vector<StoredFile> list(const std::string& owner) const;
  /// For reading, from its beginning. Errors: kNotFound, kIo, kCorruptData.
  Result<Descriptor> open_content(const StoredFile& file) const;
  Result<void> remove(const StoredFile& file);

 private:
  FileStore(const StateFolder& folder, FileStoreOptions options);

  Result<void> read();
  Result<void> read_description(const std::string& name, const DescriptionName& parts);

  const StateFolder& folder_;
  const FileStoreOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, StoredFile> files_;
  IdSource ids_;
};

}  // namespace stoker
