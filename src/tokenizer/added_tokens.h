// Finds added tokens in a text: those whose `normalized` flag is unset first, then, in what is
// left, the others; each time the leftmost, the longest of those that start there. Two passes,
// because a token of the second may overlap one of the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// An entry of the file's added_tokens, its whitespace and word flags all false.
struct AddedToken {
  int32_t id = 0;
  std::string spelling;  ///< never empty
  bool normalized = false;
  bool special = false;
};

/// Immutable; safe from any thread. A plain value.
class AddedTokenFinder {
 public:
  /// A stretch of a text: an added token, or the text between two.
  struct Segment {
    std::string_view text;
    std::optional<int32_t> id;
  };

  AddedTokenFinder() = default;
  /// No spelling is there twice.
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  /// The segments of a text, in order, none empty; they borrow its bytes. Time: its length times
  /// that of the longest spelling.
  std::vector<Segment> split(std::string_view text) const;

  /// The id of the token spelled like this.
  std::optional<int32_t> find(std::string_view spelling) const;

 private:
  struct Spelling {
    std::string text;
    int32_t id = 0;
  };
  // The spellings of one pass, sorted bytewise: those that share a prefix stand together.
  class Pass {
   public:
    Pass() = default;
    explicit Pass(std::vector<Spelling> spellings);
    void split(std::string_view text, std::vector<Segment>& segments) const;
    std::optional<int32_t> find(std::string_view spelling) const;

   private:
    const Spelling* longest_at(std::string_view text, size_t at) const;

    std::vector<Spelling> sorted_;
    std::array<size_t, 257> starts_{};  // where the spellings of a first byte start
  };

  Pass raw_;
  Pass normalized_;
};

}  // namespace stoker
