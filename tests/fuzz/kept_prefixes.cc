// Any bytes as the cached prefixes of a snapshot: what is taken is all of them, one behind the
// other, and is written again as it was.
#include "api/kept_prefixes.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "snapshot/digest.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;  // NOLINT(google-build-using-namespace): of this function only
  const Bytes bytes(data, size);
  const auto split = split_kept_prefixes(bytes);
  if (!split) {
    CHECK(!split.error().message.empty(), "told");
    return 0;
  }
  CHECK(!split->empty() && split->size() <= kMaxSavedPrefixes, "within limits");
  std::vector<KeptPrefix> prefixes;
  for (const Bytes one : *split) {
    CHECK(!one.empty(), "of at least a byte");
    prefixes.push_back({{one.begin(), one.end()}, 0});
  }
  std::string again = kept_prefixes_head(prefixes);
  for (const KeptPrefix& prefix : prefixes) again.append(prefix.bytes.begin(), prefix.bytes.end());
  CHECK(std::ranges::equal(snapshot::bytes_of(again), bytes), "the same bytes");
  return 0;
}
