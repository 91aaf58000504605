// Any bytes as the canary of a snapshot: what is taken has ids of the vocabulary, and is what would
// be written.
#include "api/canary.h"

#include <cstdint>
#include <string_view>

#include "base/check.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int32_t kVocabSize = 1000;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto canary = stoker::parse_canary(text, kVocabSize);
  if (!canary) return 0;
  CHECK(!canary->prompts.empty(), "something is asked");
  for (const stoker::CanaryPrompt& prompt : canary->prompts) {
    CHECK(!prompt.ids.empty() && !prompt.tokens.empty(), "with an answer");
    for (const int32_t id : prompt.ids) CHECK(id >= 0 && id < kVocabSize, "of the vocabulary");
    for (const int32_t id : prompt.tokens) CHECK(id >= 0 && id < kVocabSize, "of the vocabulary");
  }
  CHECK(stoker::canary_text(*canary) == text, "one text for each canary");
  return 0;
}
