#include "server/http_query.h"

#include <algorithm>
#include <charconv>

namespace stoker {

std::string decode_percent(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* begin = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(begin, begin + 2, byte, 16).ptr == begin + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (decode_percent(pair.substr(0, equals)) == name)
      return decode_percent(pair.substr(std::min(equals + 1, pair.size())));
  }
  return std::nullopt;
}

}  // namespace stoker
