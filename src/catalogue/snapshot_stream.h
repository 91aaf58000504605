// A snapshot as one stream: its objects, then its manifest (docs/formats.md). Read from beginning
// to end, with nothing believed before its digest matches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalogue/byte_source.h"
#include "snapshot/chunk_table.h"
#include "snapshot/manifest.h"
#include "snapshot/store.h"

namespace stoker::catalogue {

constexpr size_t kMaxSignatureBytes = 4096;

/// What stands behind the objects.
struct StreamEnd {
  snapshot::Manifest manifest;
  std::string signature;  ///< "" : none
};

/// Takes a stream apart, one object after the other, each chunk by chunk. Borrows its source. Used
/// by one thread. Errors of all: those of the source; kCorruptData with the place in the stream for
/// what is cut, changed or not allowed; kUnsupported for another version, or an object that may not
/// travel. Nothing can be read after an error.
class StreamReader {
 public:
  /// Reads the head.
  static Result<StreamReader> open(ByteSource& source);

  int64_t num_objects() const { return num_objects_; }
  /// Of the whole stream.
  int64_t num_bytes() const { return num_bytes_; }
  int64_t num_bytes_read() const { return num_read_; }

  /// Goes to the next object, once every chunk of the one before was read. False: none is left.
  Result<bool> next_object();
  const snapshot::Section& section() const { return section_; }
  /// The bytes of its chunk table, which is that of the section.
  const std::string& table() const { return table_; }
  bool has_chunk() const { return num_object_bytes_ < section_.bytes; }
  /// The next chunk, which is good; until the next call.
  Result<Bytes> next_chunk();

  /// Reads what stands behind the objects, once all were read. The manifest names these objects and
  /// no others, and nothing follows.
  Result<StreamEnd> finish();

 private:
  explicit StreamReader(ByteSource& source) : source_(&source) {}
  Result<void> read_head();
  Result<void> read(std::span<uint8_t> out);
  Result<uint64_t> read_number();
  Result<std::string> read_text_part(const char* what, size_t min_bytes, size_t max_bytes);
  Result<void> read_table();
  Result<StreamEnd> read_end();
  Error damaged(const std::string& what) const;

  ByteSource* source_;
  int64_t num_objects_ = 0;
  int64_t num_bytes_ = 0;
  int64_t num_read_ = 0;
  int64_t object_idx_ = 0;
  std::vector<snapshot::Section> sections_;  // those that were begun
  snapshot::Section section_;
  std::string table_;
  std::vector<uint64_t> chunk_digests_;
  int64_t num_object_bytes_ = 0;
  std::vector<uint8_t> chunk_;
};

/// Takes bytes of a stream, in order.
using ByteSink = std::function<Result<void>(Bytes)>;

/// Writes a snapshot whose objects are all in the store, each chunk held against its digest before.
/// Errors: those of the sink and of Store::open_object; kCorruptData for a damaged chunk, kIo.
Result<void> write_stream(const snapshot::Store& store, const snapshot::Manifest& manifest,
                          const std::string& signature, const ByteSink& sink,
                          const snapshot::Progress& progress);

/// Puts what a stream holds into a store; the manifest last. Objects that are there are read over.
/// What arrived of an object before an error goes; whole objects stay until they are collected. The
/// caller holds the lock on changes. Errors: those of StreamReader, Arrival, Snapshots::publish.
Result<snapshot::Manifest> import_stream(const snapshot::Store& store, ByteSource& source,
                                         const snapshot::Progress& progress);

}  // namespace stoker::catalogue
