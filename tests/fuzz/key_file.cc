// Any bytes as a key file of the store and as the word of a pinner: as they are, and as lines under
// the digest that makes them believable. What is taken is what would be written.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "snapshot/pin_record.h"
#include "snapshot/section.h"

namespace stoker::snapshot {
namespace {

void check_key_file(std::string_view text) {
  const auto section = parse_key_file(text);
  if (!section) {
    CHECK(!section.error().message.empty(), "told");
    return;
  }
  CHECK(check_section(*section).has_value(), "within its limits");
  CHECK(section->object().find('/') == std::string::npos, "the name of one file");
  CHECK(key_file_text(*section) == text, "one text for each section");
}

void check_pin_record(std::string_view text) {
  const auto record = parse_pin_record(text);
  if (!record) {
    CHECK(!record.error().message.empty(), "told");
    return;
  }
  CHECK(record->object.find('/') == std::string::npos, "the name of one file");
  CHECK(record->pid > 0, "a process");
  CHECK(pin_record_text(*record) == text, "one text for each record");
}

}  // namespace
}  // namespace stoker::snapshot

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker::snapshot;  // NOLINT(google-build-using-namespace): of this function only
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string ended = text + "end=" + digest_of(text).hex() + "\n";
  check_key_file(text);
  check_key_file(ended);
  check_pin_record(text);
  check_pin_record(ended);
  return 0;
}
