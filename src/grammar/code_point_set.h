// Sets of code points, as sorted ranges: what a class in an expression means.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace stoker::grammar {

/// A plain value.
class CodePointSet {
 public:
  static constexpr char32_t kMax = 0x10FFFF;

  /// first <= last.
  void add(char32_t first, char32_t last) { ranges_.emplace_back(first, last); }
  void add(const CodePointSet& other);
  /// Its only member, if it has but one.
  std::optional<char32_t> single() const {
    if (ranges_.size() != 1 || ranges_[0].first != ranges_[0].second) return std::nullopt;
    return ranges_[0].first;
  }
  /// All others.
  CodePointSet complement() const;
  /// One character of the set, in UTF-8; surrogates are no characters.
  NodeId emit(GrammarBuilder& builder) const;

  /// Digits, letters with digits and `_`, white space, as expressions have them: \d \w \s.
  static CodePointSet of_class(char letter);

 private:
  std::vector<std::pair<char32_t, char32_t>> sorted() const;
  std::vector<std::pair<char32_t, char32_t>> ranges_;
};

}  // namespace stoker::grammar
