// Reads arbitrary bytes as a tokenizer.json. What is accepted encodes and decodes texts without
// loss.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using stoker::Tokenizer;
  const auto tokenizer = Tokenizer::parse({reinterpret_cast<const char*>(data), size});
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty(), "an error says something");
    return 0;
  }
  const std::string letters(300, 'a');
  for (const std::string_view text :
       {"", "the theory of <think> é\n\n", "｜DSML｜ 2026 它在", letters.c_str()}) {
    for (const auto added : {Tokenizer::AddedTokens::kMatch, Tokenizer::AddedTokens::kIgnore}) {
      CHECK(tokenizer->decode(tokenizer->encode(text, added), false) == text,
            "decoding undoes encoding");
    }
  }
  const auto map = stoker::engram_map(*tokenizer);
  CHECK(map.num_classes > 0 && map.num_classes <= tokenizer->size(),
        "as many classes as ids at most");
  return 0;
}
