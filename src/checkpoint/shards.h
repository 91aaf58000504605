// The safetensors files of a directory: one file, or shards with an index; mapped, and their
// headers read.
#pragma once

#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/problems.h"
#include "checkpoint/safetensors.h"

namespace stoker {

/// A tensor and the file that holds it.
struct StoredTensor {
  NamedTensor tensor;
  size_t file = 0;  ///< index into Shards::files
};

/// Views borrow from the mappings, which may be moved.
struct Shards {
  std::vector<MappedFile> files;
  std::vector<std::string> names;     ///< of the files, without the directory
  std::vector<StoredTensor> tensors;  ///< file by file, in the order of their data
  /// Everything wrong with files and index. The tensors of good files are there all the same.
  Problems problems;
};

/// Maps model.safetensors.index.json's shards, or else model.safetensors, or else the only
/// *.safetensors file. What is wrong is in `problems`: kNotFound where there are no weights, kIo,
/// kCorruptData.
Shards open_shards(const std::string& dir);

}  // namespace stoker
