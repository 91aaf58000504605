// Any bytes as the stream of a snapshot: as they are, and with the digests that make head and end
// believable. What is taken to the end is what would be written.
#include "catalogue/snapshot_stream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/check.h"

namespace stoker::catalogue {
namespace {

constexpr size_t kHeadBytes = 32;
constexpr size_t kDigestBytes = 16;

// Reads it to its end or its first error.
Result<StreamEnd> read_all(ByteSource& source, int64_t num_bytes) {
  auto reader = StreamReader::open(source);
  if (!reader) return reader.error();
  while (true) {
    const auto has_object = reader->next_object();
    if (!has_object) return has_object.error();
    CHECK(reader->num_bytes_read() <= num_bytes, "no more than there is");
    if (!*has_object) return reader->finish();
    CHECK(reader->section().object().find('/') == std::string::npos, "the name of one file");
    CHECK(reader->table().size() <= static_cast<size_t>(num_bytes), "as much memory as came");
    while (reader->has_chunk()) {
      const auto chunk = reader->next_chunk();
      if (!chunk) return chunk.error();
      CHECK(!chunk->empty(), "a chunk has bytes");
    }
  }
}

void check_stream(const std::string& stream) {
  MemorySource source(snapshot::bytes_of(stream));
  const auto end = read_all(source, static_cast<int64_t>(stream.size()));
  if (!end) {
    CHECK(!end.error().message.empty(), "told");
    return;
  }
  CHECK(snapshot::check_manifest(end->manifest).has_value(), "within its limits");
  CHECK(end->signature.size() <= kMaxSignatureBytes, "within its limits");
}

void put_digest(std::string& stream, size_t begin, size_t end) {
  const auto digest =
      snapshot::digest_of(std::string_view(stream).substr(begin, end - begin)).bytes;
  std::memcpy(stream.data() + end, digest.data(), digest.size());
}

// The beginning of what stands behind the objects, where there is one.
size_t end_of_objects(const std::string& stream) {
  const size_t manifest = stream.rfind("format=1\nid=");
  return manifest == std::string::npos || manifest < kHeadBytes + kDigestBytes + 8 ? 0
                                                                                   : manifest - 8;
}

}  // namespace
}  // namespace stoker::catalogue

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker::catalogue;  // NOLINT(google-build-using-namespace): of this function only
  std::string stream(reinterpret_cast<const char*>(data), size);
  check_stream(stream);
  if (size < kHeadBytes + kDigestBytes) return 0;
  put_digest(stream, 0, kHeadBytes);
  check_stream(stream);
  const size_t end = end_of_objects(stream);
  if (end == 0 || size < end + kDigestBytes) return 0;
  put_digest(stream, end, size - kDigestBytes);
  check_stream(stream);
  return 0;
}
