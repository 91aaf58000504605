#include "grammar/formats.h"

#include <array>
#include <string>
#include <utility>

namespace stoker::grammar {
namespace {

// RFC 3339 without leap seconds; every day of the calendar and no other.
#define STOKER_DATE                                                                             \
  "(\\d{4}-(((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01]))|((0[469]|11)-(0[1-9]|[12]\\d|30))|"       \
  "(02-(0[1-9]|1\\d|2[0-8])))|(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26]" \
  ")00)-02-29)"
#define STOKER_TIME \
  "(([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d+)?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d))"
#define STOKER_BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define STOKER_IPV4 "(" STOKER_BYTE "(\\." STOKER_BYTE "){3})"
#define STOKER_LABEL "([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)"
#define STOKER_HOST "(" STOKER_LABEL "(\\." STOKER_LABEL "){0,7})"
#define STOKER_WORD "([A-Za-z0-9](-*[A-Za-z0-9])*)"
#define STOKER_H16 "([0-9A-Fa-f]{1,4})"

// Up to `groups` + 1 groups, or an IPv4 address behind up to `before`.
#define STOKER_TAIL(groups, before) \
  "((" STOKER_H16 ":){0," #groups "}" STOKER_H16 "|(" STOKER_H16 ":){0," #before "}" STOKER_IPV4 ")"

// RFC 4291: eight groups, or at most seven around one `::`; the last two as an IPv4 address.
constexpr const char* kIpv6 =
    "((" STOKER_H16 ":){7}" STOKER_H16 "|(" STOKER_H16 ":){6}" STOKER_IPV4
    "|::" STOKER_TAIL(6, 5) "|" STOKER_H16 "::" STOKER_TAIL(
        5, 4) "|" STOKER_H16 "(:" STOKER_H16
              ")::" STOKER_TAIL(4, 3) "|" STOKER_H16 "(:" STOKER_H16 "){2}::" STOKER_TAIL(
                  3, 2) "|" STOKER_H16 "(:" STOKER_H16
                        "){3}::" STOKER_TAIL(2, 1) "|" STOKER_H16 "(:" STOKER_H16
                                                   "){4}::" STOKER_TAIL(
                                                       1, 0) "|" STOKER_H16 "(:" STOKER_H16
                                                             "){5}::" STOKER_H16 "|(" STOKER_H16
                                                             "(:" STOKER_H16 "){0,6})?::)";

// RFC 5321's dot-string, with a host name of any length.
constexpr const char* kEmail =
    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" STOKER_WORD
    "(\\." STOKER_WORD ")*";

// ISO 8601 as RFC 3339 appendix A has it.
constexpr const char* kDuration =
    "P(\\d+W|(\\d+D|\\d+M(\\d+D)?|\\d+Y(\\d+M(\\d+D)?)?)(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|"
    "\\d+S))?|T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))";

constexpr std::array<std::pair<std::string_view, const char*>, 9> kFormats = {{
    {"date", STOKER_DATE},
    {"time", STOKER_TIME},
    {"date-time", STOKER_DATE "[Tt]" STOKER_TIME},
    {"duration", kDuration},
    {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    {"ipv4", STOKER_IPV4},
    {"ipv6", kIpv6},
    {"hostname", STOKER_HOST},
    {"email", kEmail},
}};

}  // namespace

const char* format_expression(std::string_view name) {
  for (const auto& [known, expression] : kFormats)
    if (known == name) return expression;
  return nullptr;
}

}  // namespace stoker::grammar
