// Normal forms and lower case of Unicode text: the one file that knows utf8proc.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

/// NFKC, then NFD. The text is valid UTF-8 of less than 4 GiB.
std::string nfkc_then_nfd(std::string_view text);

/// The simple lower-case mapping of a code point, free of context.
char32_t lower_case(char32_t code_point);

}  // namespace stoker
