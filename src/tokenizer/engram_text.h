// The text under which Engram files a token: equal for tokens that differ in case, accents, width
// or blanks only.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

/// NFKC, NFD, no marks, lower case, runs of [ \t\r\n] as one space, stripped unless that is all
/// there is. May be empty. The text is valid UTF-8 of less than 4 GiB. Equal on every text to the
/// normaliser with which the tables were trained, which mixes several versions of Unicode. Source:
/// tools/reference/v41/engram.py, normalise.
std::string engram_text(std::string_view text);

}  // namespace stoker
