// The page that a browser shows at "/": try a chat, see what the server does. page.html, compiled
// in.
#pragma once

#include <string_view>

namespace stoker {

/// HTML in UTF-8 that asks for nothing but the server's own routes. Static; safe from any thread.
std::string_view page_html();

}  // namespace stoker
