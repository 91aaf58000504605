// For tests of checkpoints: edits of JSON values, directories of their own, and shards taken apart
// and put together again.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"

namespace stoker::testing {

inline const std::string kSmallCheckpoint = STOKER_SOURCE_DIR "/tests/data/small/checkpoint";
inline const std::string kDemoCheckpoint = STOKER_SOURCE_DIR "/models/demo";

/// The text of a file that must be there.
inline std::string file_text(const std::string& path) {
  auto text = read_file(path, size_t{64} << 20);
  if (!text) ADD_FAILURE() << text.error().message;
  return text ? *std::move(text) : "";
}

/// The value of a JSON text that must be good.
inline Json json_of(std::string_view text) {
  auto json = Json::parse(text);
  if (!json) ADD_FAILURE() << json.error().message << " in " << text;
  return json ? *std::move(json) : Json();
}

/// `object` with the member at `path` ("a.b") set to `value`, or without it.
inline Json edited(const Json& object, std::string_view path, const std::optional<Json>& value) {
  const size_t dot = path.find('.');
  const std::string_view name = path.substr(0, dot);
  std::vector<Json::Member> members;
  bool is_there = false;
  for (const auto& [key, old] : object.members()) {
    if (key != name) {
      members.emplace_back(key, old);
    } else if (dot != std::string_view::npos) {
      members.emplace_back(key, edited(old, path.substr(dot + 1), value));
    } else if (value) {
      members.emplace_back(key, *value);
    }
    is_there = is_there || key == name;
  }
  if (!is_there && value) members.emplace_back(std::string(name), *value);
  return Json::object(std::move(members));
}

/// A tensor that owns its bytes.
struct OwnedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string bytes;
};

inline std::vector<OwnedTensor> tensors_of(const std::string& path) {
  std::vector<OwnedTensor> owned;
  const auto file = MappedFile::open(path);
  if (!file) {
    ADD_FAILURE() << file.error().message;
    return owned;
  }
  const auto tensors = parse_safetensors(file->bytes(), path);
  if (!tensors) {
    ADD_FAILURE() << tensors.error().message;
    return owned;
  }
  for (const auto& [name, view] : *tensors) {
    owned.push_back({name, view.dtype, view.shape,
                     std::string(reinterpret_cast<const char*>(view.data),
                                 static_cast<size_t>(view.size_bytes))});
  }
  return owned;
}

inline Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string image_of(const std::vector<OwnedTensor>& tensors) {
  std::vector<TensorToWrite> to_write;
  to_write.reserve(tensors.size());
  for (const OwnedTensor& tensor : tensors) {
    to_write.push_back({tensor.name, tensor.dtype, tensor.shape, bytes_of(tensor.bytes)});
  }
  return serialize_safetensors(to_write);
}

/// A copy of a checkpoint in a directory of its own, removed at the end.
class CheckpointCopy {
 public:
  explicit CheckpointCopy(const std::string& of = kSmallCheckpoint) {
    std::string pattern = ::testing::TempDir() + "checkpoint.XXXXXX";
    const char* made = ::mkdtemp(pattern.data());
    if (made == nullptr) ADD_FAILURE() << "no directory " << pattern;
    dir_ = pattern;
    std::filesystem::copy(of, dir_, std::filesystem::copy_options::recursive);
  }
  ~CheckpointCopy() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  CheckpointCopy(const CheckpointCopy&) = delete;
  CheckpointCopy& operator=(const CheckpointCopy&) = delete;

  const std::string& dir() const { return dir_; }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string text(const std::string& name) const { return file_text(path(name)); }

  void write(const std::string& name, std::string_view text) const {
    std::ofstream file(path(name), std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.flush()) ADD_FAILURE() << "cannot write " << path(name);
  }

  void remove(const std::string& name) const {
    if (!std::filesystem::remove(path(name))) ADD_FAILURE() << "there was no " << path(name);
  }

  /// Sets (or, without a value, removes) a member of a JSON file.
  void edit_json(const std::string& name, std::string_view member,
                 const std::optional<Json>& value) const {
    write(name, edited(json_of(text(name)), member, value).dump());
  }

  /// Takes a shard apart, lets `change` have its tensors, and writes it again.
  void edit_shard(const std::string& name,
                  const std::function<void(std::vector<OwnedTensor>&)>& change) const {
    std::vector<OwnedTensor> tensors = tensors_of(path(name));
    change(tensors);
    write(name, image_of(tensors));
  }

 private:
  std::string dir_;
};

/// The one of that name, which must be there.
inline OwnedTensor& named(std::vector<OwnedTensor>& tensors, const std::string& name) {
  for (OwnedTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  static OwnedTensor none;
  return none;
}

}  // namespace stoker::testing
