// Reads tokenizer.json and vouches for all of it: the shape is the released one, ids are dense,
// merges name known symbols. What it returns is never checked again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"

namespace stoker {

/// The content of a tokenizer.json. A plain value.
struct TokenizerFile {
  std::vector<std::string> symbols;  ///< [ids] the vocabulary string, or an added token's spelling
  std::vector<std::string> bytes;    ///< [ids] what an id stands for
  std::array<int32_t, 256> byte_ids{};
  std::vector<Bpe::Merge> merges;  ///< by rank
  std::vector<AddedToken> added;   ///< in the order of the file
};

/// Errors: kCorruptData for what is not JSON or contradicts itself, kUnsupported for another shape;
/// each with the place, what was expected and what was found. Memory stays in proportion to the
/// text.
Result<TokenizerFile> read_tokenizer_file(std::string_view json);

}  // namespace stoker
