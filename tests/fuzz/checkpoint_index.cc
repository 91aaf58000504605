// The small JSON files beside the weights. The first byte of the input says which of the parsers
// reads the rest.
#include <cstdlib>
#include <string_view>

#include "checkpoint/side_files.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int32_t kVocab = 1000;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'g':
      if (const auto config = stoker::parse_generation_config(text, kVocab)) {
        if (config->temperature && !(*config->temperature >= 0)) std::abort();
        if (config->top_p && !(*config->top_p > 0 && *config->top_p <= 1)) std::abort();
        for (const int32_t id : config->eos_token_ids) {
          if (id < 0 || id >= kVocab) std::abort();
        }
      }
      break;
    case 't':
      static_cast<void>(stoker::check_tokenizer_config(text));
      break;
    default:
      if (const auto map = stoker::parse_index(text)) {
        for (const auto& [name, file] : *map) {
          if (file.empty() || file.find('/') != std::string::npos || file == "..") std::abort();
        }
      }
  }
  return 0;
}
