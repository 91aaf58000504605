#include "tools/slice_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/try.h"
#include "checkpoint/safetensors.h"
#include "tools/slice_weights.h"

namespace stoker::slice {
namespace {

constexpr int64_t kShardBytes = int64_t{256} << 20;  // a shard ends with the tensor that reaches it
constexpr int64_t kPieceBytes = int64_t{1} << 20;    // of one worker at a time; a multiple of 8

struct Shard {
  std::vector<Filling> tensors;
  int64_t size_bytes = 0;
};

std::vector<Shard> shards_of(const ModelConfig& config) {
  std::vector<Shard> shards(1);
  visit_weights(config, nullptr, [&](const WeightSpec& spec) {
    if (spec.may_be_absent) return;
    if (shards.back().size_bytes >= kShardBytes) shards.emplace_back();
    for (Filling& filling : fillings_of(config, spec)) {
      shards.back().size_bytes += filling.size_bytes();
      shards.back().tensors.push_back(std::move(filling));
    }
  });
  return shards;
}

Error io_error(const std::string& path, int code) {
  return {ErrorCode::kIo, path + ": expected to write it: " + std::strerror(code), ""};
}

Result<Descriptor> create(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return io_error(path, errno);
  return file;
}

// Returns 0, or why not.
int write_at(const Descriptor& file, int64_t offset, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file.get(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno != EINTR) return errno;
    if (n < 0) continue;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return 0;
}

Result<void> write_text(const std::string& path, const std::string& text) {
  TRY_ASSIGN(const Descriptor file, create(path));
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const int code = write_at(file, 0, {bytes, text.size()});
  if (code != 0) return io_error(path, code);
  return {};
}

// A part of a tensor that one worker makes and writes.
struct Piece {
  const Filling* tensor = nullptr;
  int64_t first = 0;  // in the tensor
  int64_t size_bytes = 0;
  int64_t offset = 0;  // in the file
};

std::vector<Piece> pieces_of(const Shard& shard, int64_t offset) {
  std::vector<Piece> pieces;
  for (const Filling& tensor : shard.tensors) {
    const int64_t size = tensor.size_bytes();
    for (int64_t first = 0; first < size; first += kPieceBytes)
      pieces.push_back({&tensor, first, std::min(kPieceBytes, size - first), offset + first});
    offset += size;
  }
  return pieces;
}

Result<void> write_shard(const std::string& path, const Shard& shard, uint64_t seed,
                         WorkerPool& pool) {
  std::vector<NamedTensor> named;
  for (const Filling& tensor : shard.tensors)
    named.push_back({tensor.name, {tensor.dtype, tensor.shape, nullptr, tensor.size_bytes()}});
  const std::string head = safetensors_head(named);
  const std::vector<Piece> pieces = pieces_of(shard, static_cast<int64_t>(head.size()));

  TRY_ASSIGN(const Descriptor file, create(path));
  std::atomic<int> failure =
      write_at(file, 0, {reinterpret_cast<const uint8_t*>(head.data()), head.size()});
  std::vector<std::vector<uint8_t>> buffers(static_cast<size_t>(pool.num_threads()));
  for (auto& buffer : buffers) buffer.resize(static_cast<size_t>(kPieceBytes));
  pool.run(static_cast<int64_t>(pieces.size()), [&](int64_t number, int worker) {
    if (failure != 0) return;
    const Piece& piece = pieces[static_cast<size_t>(number)];
    const std::span bytes(buffers[static_cast<size_t>(worker)].data(),
                          static_cast<size_t>(piece.size_bytes));
    fill(*piece.tensor, seed, piece.first, bytes);
    if (const int code = write_at(file, piece.offset, bytes); code != 0) failure = code;
  });
  if (failure != 0) return io_error(path, failure);
  return {};
}

std::string shard_name(size_t number, size_t count) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", number, count);
  return name.data();
}

std::string index_text(const std::vector<Shard>& shards) {
  std::vector<Json::Member> files;
  int64_t size = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    size += shards[i].size_bytes;
    for (const Filling& tensor : shards[i].tensors)
      files.emplace_back(tensor.name, Json::string(shard_name(i + 1, shards.size())));
  }
  return Json::object({{"metadata", Json::object({{"total_size", Json::integer(size)}})},
                       {"weight_map", Json::object(std::move(files))}})
      .dump();
}

}  // namespace

Result<int64_t> write_checkpoint(const std::string& dir, const Options& options, WorkerPool& pool,
                                 const std::function<void(double fraction)>& progress) {
  TRY_ASSIGN(const Json json, make_config(options));
  const std::string text = json.dump();
  TRY_ASSIGN(const ModelConfig config, parse_config(text));
  const std::vector<Shard> shards = shards_of(config);
  int64_t total_bytes = 0;
  for (const Shard& shard : shards) total_bytes += shard.size_bytes;

  std::error_code code;
  std::filesystem::create_directories(dir, code);
  if (code) return io_error(dir, code.value());
  int64_t done_bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string path = dir + "/" + shard_name(i + 1, shards.size());
    if (auto written = write_shard(path, shards[i], options.seed, pool); !written)
      return std::move(written).error();
    done_bytes += shards[i].size_bytes;
    if (progress) progress(static_cast<double>(done_bytes) / static_cast<double>(total_bytes));
  }
  const std::string defaults = R"({"temperature": 1.0, "top_p": 1.0, "eos_token_id": 1})";
  for (const auto& [name, content] :
       {std::pair("model.safetensors.index.json", index_text(shards)),
        std::pair("generation_config.json", defaults), std::pair("config.json", text)}) {
    if (auto written = write_text(dir + "/" + name, content); !written)
      return std::move(written).error();
  }
  return total_bytes;
}

}  // namespace stoker::slice
