// Cross-origin resource sharing: which pages of other origins a browser lets read answers.
// Source: https://fetch.spec.whatwg.org/#http-cors-protocol.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http_parser.h"
#include "stoker/result.h"

namespace stoker {

/// Plain values. In each list, "*" stands for all.
struct CorsRules {
  std::vector<std::string> origins = {"*"};  ///< as browsers send them: "https://host:port"
  std::vector<std::string> methods = {"*"};
  std::vector<std::string> headers = {"*"};
  bool has_credentials = false;  ///< cookies and keys that the browser keeps may be sent
};

/// The items of JSON lists of strings, or of strings alone, as options give them. Errors: those of
/// Json::parse; kInvalidArgument for what cannot stand in such a list of a head.
Result<std::vector<std::string>> parse_cors_list(const std::vector<std::string>& texts);

/// The header lines that an answer to this request has by the rules, each with its end; none for an
/// origin that is not listed. `methods`: those of the route, which are all. OPTIONS is told methods
/// and headers too.
std::string cors_lines(const CorsRules& rules, const HttpRequest& request,
                       std::string_view methods);

}  // namespace stoker
