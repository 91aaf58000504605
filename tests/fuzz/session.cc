// Any bytes as a kept conversation, and as the head of a saved prefix: as they are, and under the
// digest that makes them believable.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/prefix_bytes.h"
#include "api/session_bytes.h"
#include "base/check.h"
#include "snapshot/digest.h"

namespace stoker {
namespace {

void check_text(std::string_view json) {
  const auto text = parse_session_json(json);
  if (!text) {
    CHECK(text.error().code == ErrorCode::kCorruptData, "told as damage");
    return;
  }
  CHECK(text->session.name.size() <= 64 && text->model_digest.size() == 32, "within limits");
  const std::string written = session_json(*text);
  const auto again = parse_session_json(written);
  CHECK(again && session_json(*again) == written, "what is written is read again");
}

void check_session(Bytes bytes) {
  const auto layout = SessionLayout::read(bytes, static_cast<int64_t>(bytes.size()));
  if (!layout) return;
  CHECK(layout->bytes() == static_cast<int64_t>(bytes.size()), "all of it");
  CHECK(layout->prefix_offset() >= layout->text_offset() + layout->text_bytes,
        "one after the other");
  check_text({reinterpret_cast<const char*>(bytes.data()) + layout->text_offset(),
              static_cast<size_t>(layout->text_bytes)});
}

void check_prefix(const std::vector<uint8_t>& bytes, const ModelInfo& model) {
  const auto state = open_prefix(bytes, model);
  if (!state) {
    CHECK(!state.error().message.empty(), "told");
    return;
  }
  std::vector<uint8_t> again;
  begin_prefix(again);
  again.insert(again.end(), state->begin(), state->end());
  seal_prefix(again, model);
  CHECK(open_prefix(again, model).has_value(), "what is written is read again");
}

}  // namespace
}  // namespace stoker

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;  // NOLINT(google-build-using-namespace): of this function only
  ModelInfo model;
  model.digest = "000102030405060708090a0b0c0d0e0f";
  model.numeric_mode = "reference-1";
  check_session({data, size});
  check_text({reinterpret_cast<const char*>(data), size});
  std::vector<uint8_t> bytes(data, data + size);
  check_prefix(bytes, model);
  constexpr size_t kDigestAt = 16;
  constexpr size_t kCovered = 32;
  if (size < kCovered) return 0;
  const auto digest = snapshot::digest_of(Bytes(bytes).subspan(kCovered));
  std::ranges::copy(digest.bytes, bytes.begin() + kDigestAt);
  check_prefix(bytes, model);
  return 0;
}
