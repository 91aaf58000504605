// Cuts a text into the pieces inside which byte pairs are merged: the three Split patterns of the
// released tokenizer.json, as one hand-written scanner.
#pragma once

#include <string_view>
#include <vector>

namespace stoker {

/// The pieces of a text, in order; together they are the text. They borrow its bytes. The text is
/// valid UTF-8 of less than 4 GiB. Time linear in its length.
std::vector<std::string_view> pretokenize(std::string_view text);

}  // namespace stoker
