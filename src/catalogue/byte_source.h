// Bytes that come one after the other: from a file or pipe, from a server, from memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "stoker/result.h"

namespace stoker::catalogue {

/// Used by one thread. Destroying it ends what it reads from.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// Writes the next bytes to `out`, which is not empty: at least one and at most all; 0 at the
  /// end. Errors: kIo, and kPeerLost where trying again can help.
  virtual Result<size_t> read_some(std::span<uint8_t> out) = 0;
};

/// Of an open file or pipe.
class FileSource : public ByteSource {
 public:
  /// `path` for messages.
  FileSource(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Result<size_t> read_some(std::span<uint8_t> out) override;

 private:
  Descriptor file_;
  std::string path_;
};

/// Of memory that outlives it.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(Bytes bytes) : rest_(bytes) {}
  Result<size_t> read_some(std::span<uint8_t> out) override;

 private:
  Bytes rest_;
};

/// Fills `out`. Errors: those of read_some; kCorruptData where it ends before, with how much came.
Result<void> read_exactly(ByteSource& source, std::span<uint8_t> out);

/// Whether it is at its end; reads a byte to know. Errors: those of read_some.
Result<bool> is_at_end(ByteSource& source);

/// All of it, at most max_bytes. Errors: those of read_some; kCorruptData beyond.
Result<std::string> read_text(ByteSource& source, size_t max_bytes);

}  // namespace stoker::catalogue
