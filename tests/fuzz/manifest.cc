// Any bytes as a manifest: as they are, and as lines under the digests that make them believable.
// What is taken is what would be written.
#include "snapshot/manifest.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"

namespace stoker::snapshot {
namespace {

void check_text(std::string_view text) {
  const auto manifest = parse_manifest(text);
  if (!manifest) {
    CHECK(!manifest.error().message.empty(), "told");
    return;
  }
  CHECK(check_manifest(*manifest).has_value(), "within its limits");
  for (const Section& section : manifest->sections)
    CHECK(section.object().find('/') == std::string::npos, "the name of one file");
  CHECK(manifest->bytes() > 0, "no size runs over");
  CHECK(manifest_text(*manifest) == text, "one text for each manifest");
}

// The text with the id of its lines.
std::string with_id(std::string text) {
  const size_t body = text.find("engine.build=");
  const size_t id = text.find("id=");
  if (body == std::string::npos || id == std::string::npos || id + 3 + Digest::kHexDigits > body)
    return text;
  return text.replace(id + 3, Digest::kHexDigits, digest_of(text.substr(body)).hex());
}

}  // namespace
}  // namespace stoker::snapshot

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker::snapshot;  // NOLINT(google-build-using-namespace): of this function only
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_text(text);
  const std::string lines = with_id(text);
  check_text(lines + "end=" + digest_of(lines).hex() + "\n");
  return 0;
}
