// Any bytes as what criu says of its version, and as the status of a process.
#include "api/image_probe.h"

#include <cstdint>
#include <string_view>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* const label : {"Version: ", ""}) {
    const auto version = stoker::version_in(text, label);
    CHECK(!version || (version->first >= 0 && version->second >= 0), "numbers");
  }
  (void)stoker::has_capability(text, 40);
  return 0;
}
