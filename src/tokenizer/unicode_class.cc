#include "tokenizer/unicode_class.h"

#include <algorithm>

namespace stoker {

CharClass char_class(char32_t code_point) {
  const std::span<const uint32_t> runs = unicode_runs();
  const auto next =
      std::upper_bound(runs.begin(), runs.end(), static_cast<uint32_t>(code_point) * 8 + 7);
  return static_cast<CharClass>(*(next - 1) % 8);
}

}  // namespace stoker
