// Any bytes as the index of a catalogue: as they are, and as lines under the digest that makes them
// believable. What is taken is what would be written.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "catalogue/index.h"
#include "snapshot/text_lines.h"

namespace stoker::catalogue {
namespace {

void check_text(std::string_view text) {
  const auto index = parse_index(text);
  if (!index) {
    CHECK(!index.error().message.empty(), "told");
    return;
  }
  CHECK(index->size() <= kMaxIndexEntries, "within its limits");
  CHECK(index_text(*index) == text, "one text for each index");
}

}  // namespace
}  // namespace stoker::catalogue

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  stoker::catalogue::check_text(text);
  stoker::catalogue::check_text(stoker::snapshot::ended_text(text));
  return 0;
}
