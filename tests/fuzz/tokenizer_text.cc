// Encodes arbitrary bytes, and decodes them as ids, with the small checkpoint's tokenizer: decoding
// undoes encoding, and the stream says what the whole decode says.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace {

using stoker::Detokenizer;
using stoker::Tokenizer;

const Tokenizer& tokenizer() {
  static const Tokenizer instance = [] {
    const auto json =
        stoker::read_file(STOKER_SOURCE_DIR "/tests/data/small/checkpoint/tokenizer.json", 1 << 20);
    CHECK(json.has_value(), "the small checkpoint has a tokenizer");
    auto parsed = Tokenizer::parse(*json);
    CHECK(parsed.has_value(), "the small tokenizer is valid");
    return *std::move(parsed);
  }();
  return instance;
}

void check_stream(const std::vector<int32_t>& ids, bool skip_special) {
  Detokenizer stream(tokenizer(), skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string emitted = stream.push(id);
    CHECK(stoker::is_valid_utf8(emitted), "whole characters only");
    text += emitted;
  }
  text += stream.finish();
  CHECK(text == tokenizer().decode(ids, skip_special), "the stream says what the whole says");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto added : {Tokenizer::AddedTokens::kMatch, Tokenizer::AddedTokens::kIgnore}) {
    const auto ids = tokenizer().encode(text, added);
    CHECK(tokenizer().decode(ids, false) == stoker::repair_utf8(text), "decoding undoes encoding");
    check_stream(ids, false);
  }
  std::vector<int32_t> ids;  // two bytes each, some out of range
  for (size_t i = 0; i + 1 < size; i += 2) ids.push_back(data[i] + 256 * (data[i + 1] % 4) - 16);
  check_stream(ids, false);
  check_stream(ids, true);
  return 0;
}
