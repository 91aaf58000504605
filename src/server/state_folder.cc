#include "server/state_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/try.h"

namespace stoker {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::string_view kUnfinishedSuffix = ".tmp";
constexpr std::string_view kDescriptionSuffix = ".json";
constexpr size_t kIdDigits = 32;

bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

Result<void> make_private_folder(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return system_error(path, "cannot be created");
}

}  // namespace

Result<StateFolder> StateFolder::open(const std::string& path) {
  if (auto made = make_private_folder(path); !made) return std::move(made).error();
  TRY_ASSIGN(Folder folder, Folder::open(path));
  if (::fchmod(folder.fd(), S_IRWXU) != 0) return system_error(path, "cannot be made private");
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  Descriptor lock(::openat(folder.fd(), kLockName, flags, S_IRUSR | S_IWUSR));
  if (lock.get() < 0) return system_error(folder.path_of(kLockName), "cannot be opened");
  if (!try_lock(lock.get())) {
    return Error{ErrorCode::kOverloaded,
                 path +
                     ": expected a folder that no other server uses, found one that has it; end "
                     "that server or name another folder",
                 ""};
  }
  StateFolder state(std::move(folder), std::move(lock));
  if (auto swept = state.sweep(); !swept) return std::move(swept).error();
  return state;
}

Result<void> StateFolder::save(const std::string& name, std::string_view text) const {
  const std::string unfinished = name + std::string(kUnfinishedSuffix);
  if (auto removed = folder_.remove_file(unfinished); !removed) return removed;
  if (auto written = folder_.write_file(unfinished, text); !written) return written;
  if (auto moved = folder_.move_file(unfinished, folder_, name); !moved) return moved;
  return folder_.sync();
}

Result<void> StateFolder::sweep() const {
  TRY_ASSIGN(const std::vector<std::string> names, folder_.names());
  for (const std::string& name : names) {
    if (!name.ends_with(kUnfinishedSuffix)) continue;
    if (auto removed = folder_.remove_file(name); !removed) return removed;
  }
  return {};
}

bool is_stored_id(std::string_view text, std::string_view prefix) {
  if (text.size() != prefix.size() + kIdDigits || !text.starts_with(prefix)) return false;
  const std::string_view digits = text.substr(prefix.size());
  return std::all_of(digits.begin(), digits.end(), is_hex_digit);
}

std::string description_name(const std::string& id, const std::string& owner) {
  return id + "." + owner + std::string(kDescriptionSuffix);
}

std::optional<DescriptionName> parse_description_name(std::string_view name,
                                                      std::string_view prefix) {
  const size_t num_id_bytes = prefix.size() + kIdDigits;
  if (name.size() < num_id_bytes + 1 + kDescriptionSuffix.size() || name[num_id_bytes] != '.' ||
      !name.ends_with(kDescriptionSuffix) || !is_stored_id(name.substr(0, num_id_bytes), prefix))
    return std::nullopt;
  const std::string_view owner = name.substr(num_id_bytes + 1);
  return DescriptionName{std::string(name.substr(0, num_id_bytes)),
                         std::string(owner.substr(0, owner.size() - kDescriptionSuffix.size()))};
}

}  // namespace stoker
