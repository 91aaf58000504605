// Any bytes as an address, and as where a server redirects to. What is taken is read from what it
// is written as, has nothing in it that could break a line of a request, and is an allowed place.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "catalogue/url.h"

namespace stoker::catalogue {
namespace {

void check_address(const Url& url) {
  const std::string text = url.text();
  CHECK(std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; }), "one word");
  CHECK(!url.host.empty() && !url.port.empty() && url.path.starts_with('/'), "whole");
}

void check_text(std::string_view text) {
  if (const auto url = parse_url(text)) {
    check_address(*url);
    const auto again = parse_url(url->text());
    CHECK(again && *again == *url, "one meaning");
  }
  for (const bool is_tls : {false, true}) {
    const Url from{is_tls, "host", "8080", "/path"};
    const auto url = redirected(from, text);
    if (!url) continue;
    check_address(*url);
    CHECK(url->is_tls || (!is_tls && url->host == from.host), "an allowed place");
  }
}

}  // namespace
}  // namespace stoker::catalogue

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::catalogue::check_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
