// The folder of --batch-dir: who owns it, and small files in it that are whole at every moment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/descriptor.h"
#include "base/folder.h"
#include "stoker/result.h"

namespace stoker {

/// A folder that one server has at a time. Its functions may be called from several threads, for
/// files of different names.
class StateFolder {
 public:
  /// Takes the folder, which is made where it is not there, and gives it mode 0700. Errors:
  /// kOverloaded while another server has it; kIo, kNotFound; kCorruptData if others could write in
  /// it.
  static Result<StateFolder> open(const std::string& path);

  /// Puts a file of this text in the place of what has that name: the old one or the new one is
  /// there, whatever happens. Errors: as system_error.
  Result<void> save(const std::string& name, std::string_view text) const;

  /// Removes what a save() left that did not come to its end, as told by its name.
  Result<void> sweep() const;

  const Folder& files() const { return folder_; }
  std::string path_of(const std::string& name) const { return folder_.path_of(name); }

 private:
  StateFolder(Folder folder, Descriptor lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  Folder folder_;
  Descriptor lock_;  // holds the flock
};

inline constexpr const char* kFilePrefix = "file-";    ///< of the ids of files
inline constexpr const char* kBatchPrefix = "batch_";  ///< of the ids of batches

/// Whether a text is `prefix` and 32 hexadecimal digits in lower case, and so the name of a file
/// that no path leads out of.
bool is_stored_id(std::string_view text, std::string_view prefix);

/// The name of the file that describes what has this id and belongs to this owner, a key's name or
/// none: "ID.OWNER.json". It tells both when the content is damaged.
std::string description_name(const std::string& id, const std::string& owner);

/// Such a name. A plain value.
struct DescriptionName {
  std::string id, owner;
};
std::optional<DescriptionName> parse_description_name(std::string_view name,
                                                      std::string_view prefix);

}  // namespace stoker
