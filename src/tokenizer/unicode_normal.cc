#include "tokenizer/unicode_normal.h"

#include <utf8proc.h>

#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace stoker {
namespace {

// utf8proc decomposes into a buffer of ours and composes there, if asked to.
std::string transform(std::string_view text, int flags) {
  const auto options = static_cast<utf8proc_option_t>(flags | UTF8PROC_STABLE);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::vector<utf8proc_int32_t> buffer(text.size() + 1);
  auto count = utf8proc_decompose(bytes, size, buffer.data(),
                                  static_cast<utf8proc_ssize_t>(buffer.size()), options);
  if (count > static_cast<utf8proc_ssize_t>(buffer.size())) {
    buffer.resize(static_cast<size_t>(count));
    count = utf8proc_decompose(bytes, size, buffer.data(), count, options);
  }
  if (count >= 0) count = utf8proc_normalize_utf32(buffer.data(), count, options);
  CHECK(count >= 0, "valid UTF-8 that is not too long has normal forms");
  std::string out;
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_utf8(out, static_cast<char32_t>(buffer[static_cast<size_t>(i)]));
  return out;
}

}  // namespace

std::string nfkc_then_nfd(std::string_view text) {
  return transform(transform(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT), UTF8PROC_DECOMPOSE);
}

char32_t lower_case(char32_t code_point) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

}  // namespace stoker
