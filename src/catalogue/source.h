// Where a catalogue is: a folder, also of a file system that is mounted, or a server.
#pragma once

#include <memory>
#include <string>

#include "catalogue/byte_source.h"
#include "stoker/result.h"

namespace stoker::catalogue {

/// Used by one thread.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  /// The bytes of a file of the catalogue, such as "objects/config-...", from an offset.
  /// `num_bytes` is the size that the file must have; 0: not known. Errors: kNotFound; kCorruptData
  /// for another size; kPeerLost where trying again can help; kUnsupported, kIo.
  virtual Result<std::unique_ptr<ByteSource>> open(const std::string& path, int64_t offset,
                                                   int64_t num_bytes) = 0;
};

/// A folder, or http:// or https://. Errors: kNotFound, kInvalidArgument, kIo.
Result<std::unique_ptr<Source>> open_source(const std::string& where);

/// A small file of a catalogue, at most max_bytes. Errors: those of Source::open; kCorruptData with
/// its name.
Result<std::string> text_of(Source& source, const std::string& path, size_t max_bytes);

}  // namespace stoker::catalogue
