#include "checkpoint/shards.h"

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "checkpoint/json_text.h"
#include "checkpoint/side_files.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr size_t kMaxIndexBytes = size_t{64} << 20;

// Maps one file and appends its tensors. An index, where there is one, promised the file.
void open_file(const std::string& dir, const std::string& name, bool promised, Shards& shards) {
  auto file = MappedFile::open(dir + "/" + name);
  if (!file) {
    if (promised && file.error().code == ErrorCode::kNotFound) {
      shards.problems.add_corrupt(name + ": expected a shard, as " + kIndexName +
                                  " says, found no such file");
    } else {
      shards.problems.add(file.error());
    }
    return;
  }
  auto tensors = parse_safetensors(file->bytes(), name);
  if (!tensors) {
    shards.problems.add(tensors.error());
    return;
  }
  const size_t index = shards.files.size();
  for (NamedTensor& tensor : *tensors) shards.tensors.push_back({std::move(tensor), index});
  shards.files.push_back(*std::move(file));
  shards.names.push_back(name);
}

// Holds the files against the index: every tensor where the index has it, and nowhere else.
void check_against(const WeightMap& map, Shards& shards) {
  const auto problem = [&](const std::string& name, const std::string& expected,
                           const std::string& found_in) {
    shards.problems.add_corrupt(shown(name) + ": expected " + expected + ", found in " + found_in);
  };
  const std::string source = std::string(", as ") + kIndexName + " says";
  std::unordered_map<std::string_view, size_t> first_in;
  for (const StoredTensor& stored : shards.tensors) {
    const std::string& name = stored.tensor.name;
    const std::string& file = shards.names[stored.file];
    const auto [other, is_first] = first_in.emplace(name, stored.file);
    const auto entry = map.find(name);
    if (!is_first) {
      problem(name, "in one file", shards.names[other->second] + " and " + file);
    } else if (entry == map.end()) {
      problem(name, std::string("in ") + kIndexName + " too", file + " only");
    } else if (entry->second != file) {
      problem(name, "in " + entry->second + source, file);
    }
  }
  const std::set<std::string> opened(shards.names.begin(), shards.names.end());
  std::set<std::string> lost;  // sorted, so that messages do not depend on hashes
  for (const auto& [name, file] : map) {
    if (opened.count(file) != 0 && first_in.count(name) == 0) lost.insert(name);
  }
  for (const std::string& name : lost) problem(name, "in " + map.at(name) + source, "no file");
}

void open_indexed(const std::string& dir, const std::string& index, Shards& shards) {
  const auto map = parse_index(index).with(kIndexName);
  if (!map) {
    shards.problems.add(map.error());
    return;
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : *map) names.insert(file);
  for (const std::string& name : names) open_file(dir, name, true, shards);
  check_against(*map, shards);
}

// Without an index: the name of the one file there is.
Result<std::string> single_file(const std::string& dir) {
  std::error_code failed;
  if (fs::exists(dir + "/" + kSingleName, failed)) return std::string(kSingleName);
  std::vector<std::string> names;
  for (fs::directory_iterator at(dir, failed), end; !failed && at != end; at.increment(failed)) {
    if (at->path().extension() == ".safetensors") names.push_back(at->path().filename().string());
  }
  if (failed) return Error{ErrorCode::kIo, dir + ": cannot be listed: " + failed.message(), ""};
  if (names.size() == 1) return names.front();
  if (names.empty()) {
    return Error{ErrorCode::kNotFound,
                 dir + ": expected " + kSingleName + " or " + kIndexName + ", found neither", ""};
  }
  return Error{ErrorCode::kCorruptData,
               dir + ": expected " + kIndexName + " beside several *.safetensors files, found " +
                   std::to_string(names.size()) + " files and no index",
               ""};
}

}  // namespace

Shards open_shards(const std::string& dir) {
  Shards shards;
  const auto index = read_file(dir + "/" + kIndexName, kMaxIndexBytes);
  if (index) {
    open_indexed(dir, *index, shards);
  } else if (index.error().code != ErrorCode::kNotFound) {
    shards.problems.add(index.error());
  } else if (const auto name = single_file(dir)) {
    open_file(dir, *name, false, shards);
  } else {
    shards.problems.add(name.error());
  }
  return shards;
}

}  // namespace stoker
