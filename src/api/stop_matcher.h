// Finds stop strings in text that comes in pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// Releases text as soon as no stop string can begin in it. The result does not depend on how the
/// text is cut into pieces. The match that ends first wins; of those that end at the same byte, the
/// longest. One owner.
class StopMatcher {
 public:
  /// Strings that are not empty. include_match: the text ends behind a match instead of before it.
  explicit StopMatcher(std::vector<std::string> stops, bool include_match = false)
      : stops_(std::move(stops)), include_match_(include_match) {}

  /// The next piece; returns what may be shown now. Nothing after a match. may_end: whether a match
  /// may end in this piece; a later one may begin in it all the same.
  std::string push(std::string_view piece, bool may_end = true);
  /// No more text comes: what was held back.
  std::string finish();
  /// The stop string that was met.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  const std::string* stop_that_ends_at(size_t end) const;
  size_t possible_start() const;

  std::vector<std::string> stops_;
  bool include_match_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace stoker
