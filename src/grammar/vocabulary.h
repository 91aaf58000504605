// The tokens of a model as grammars see them: bytes, in trees for walking, and which ids are no
// text.
//
// Most tokens are plain: whole characters that every free string allows. They are counted once, by
// their number of characters, and walks over states that allow any such character leave them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/trie.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// Whether a byte is a plain character: printable ASCII without `"`, `\`, `<`. Characters of
/// several bytes are plain too.
constexpr bool is_plain_ascii(uint8_t byte) {
  return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\' && byte != '<';
}

/// Words of a mask for so many ids; bit i of word i / 64 is id i.
constexpr size_t mask_words(size_t num_ids) {
  return (num_ids + 63) / 64;
}

/// Immutable; safe from any thread. Neither copied nor moved: the trees borrow the bytes.
class Vocabulary {
 public:
  /// Plain tokens have at most so many characters; longer ones are like the others.
  static constexpr size_t kMaxPlainChars = 16;
  static constexpr size_t kMaxTokenBytes = 4096;

  /// tokens[i]: the bytes of id i. An id that is in `never` (special tokens), is empty, or has more
  /// than kMaxTokenBytes bytes never comes under a grammar. `ends` end a text: they may come where
  /// it is complete, whatever their bytes. Ids outside the tokens are left out of both.
  Vocabulary(std::vector<std::string> tokens, std::span<const int32_t> never,
             std::span<const int32_t> ends);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  size_t size() const { return tokens_.size(); }
  size_t num_words() const { return mask_words(size()); }
  /// The bytes of an id in [0, size()); empty where it never comes as text.
  std::string_view bytes(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  bool is_end(int32_t id) const;
  const std::vector<int32_t>& ends() const { return ends_; }

  const Trie& all() const { return all_; }
  /// The tokens that are not plain.
  const Trie& others() const { return others_; }
  /// The plain tokens of at most so many characters, 0 to kMaxPlainChars, as a mask.
  std::span<const uint64_t> plain(size_t max_chars) const {
    return std::span(plain_).subspan(max_chars * num_words(), num_words());
  }

 private:
  std::vector<std::string> tokens_;
  std::vector<int32_t> ends_;  // sorted
  Trie all_;
  Trie others_;
  std::vector<uint64_t> plain_;  // [kMaxPlainChars + 1, words]
};

}  // namespace stoker::grammar
