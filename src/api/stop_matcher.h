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
  /// Strings that are not empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// The next piece; returns what may be shown now. Nothing after a match.
  std::string push(std::string_view piece);
  /// No more text comes: what was held back.
  std::string finish();
  /// The stop string that was met; the text ends before it.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  const std::string* stop_that_ends_at(size_t end) const;
  size_t possible_start() const;

  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace stoker
