// Text to ids and back: the byte-level BPE of a tokenizer.json in the released shape
// (docs/formats.md), exact for every input, in O(n log n) for hostile ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/result.h"

namespace stoker {

/// Immutable after parse; safe from any thread. Movable.
class Tokenizer {
 public:
  /// Whether spellings of added tokens in a text become those tokens, or are text like any other.
  enum class AddedTokens { kMatch, kIgnore };

  /// Reads tokenizer.json. Errors: kCorruptData for what is not JSON or contradicts itself,
  /// kUnsupported for any other shape than the released one (pre-tokenizer, normalizer, model,
  /// flags), naming the place, what was expected and found.
  static Result<Tokenizer> parse(std::string_view json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids are 0 .. size() - 1.
  int32_t size() const;

  /// The ids of a text. Ill-formed UTF-8 reads as U+FFFD, one for each maximal ill-formed subpart.
  /// Adds nothing of its own. The text is of less than 4 GiB.
  std::vector<int32_t> encode(std::string_view text, AddedTokens added) const;

  /// The id whose added token is spelled like this; none where there is none.
  std::optional<int32_t> added_token(std::string_view spelling) const;

  /// The bytes that an id stands for; alone they need not be UTF-8. id in [0, size()).
  std::string_view bytes(int32_t id) const;

  /// The vocabulary string of an id: the byte-level symbols of an ordinary token, the spelling of
  /// an added one.
  std::string_view symbol(int32_t id) const;

  /// Whether the id is an added token whose `special` flag is set.
  bool is_special(int32_t id) const;

  /// The text of ids, ill-formed UTF-8 as U+FFFD. Ids outside [0, size()) stand for nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Turns ids into text one at a time: whole characters only, each as soon as its last byte is
/// there. The concatenation of everything returned, finish() included, equals Tokenizer::decode of
/// all ids. Borrows the tokenizer. One owner.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special);

  std::string push(int32_t id);
  /// What is held back, as one U+FFFD. Nothing may be pushed after it.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;  // an unfinished UTF-8 sequence, at most 3 bytes
};

/// Engram's classes of token ids: ids whose text normalises alike share one.
struct EngramMap {
  std::vector<int32_t> class_of;  ///< [Tokenizer::size()]
  int32_t num_classes = 0;
};

/// Source: tools/reference/v41/engram.py, compressed_map.
EngramMap engram_map(const Tokenizer& tokenizer);

}  // namespace stoker
