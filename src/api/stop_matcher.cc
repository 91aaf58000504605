#include "api/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace stoker {

// The longest stop string that is a suffix of held_[0, end), or null.
const std::string* StopMatcher::stop_that_ends_at(size_t end) const {
  const std::string* longest = nullptr;
  const std::string_view head = std::string_view(held_).substr(0, end);
  for (const std::string& stop : stops_) {
    if (head.ends_with(stop) && (longest == nullptr || stop.size() > longest->size()))
      longest = &stop;
  }
  return longest;
}

// Where the longest suffix of held_ begins that is a proper prefix of a stop string; its size where
// there is none.
size_t StopMatcher::possible_start() const {
  size_t start = held_.size();
  for (const std::string& stop : stops_) {
    size_t length = std::min(stop.size() - 1, held_.size());
    while (length > held_.size() - start &&
           !held_.ends_with(std::string_view(stop).substr(0, length)))
      --length;
    start = std::min(start, held_.size() - length);
  }
  return start;
}

std::string StopMatcher::push(std::string_view piece, bool may_end) {
  if (matched_) return {};
  size_t end = held_.size();
  held_ += piece;
  for (++end; may_end && end <= held_.size(); ++end) {
    if (const std::string* stop = stop_that_ends_at(end)) {
      matched_ = *stop;
      held_.resize(include_match_ ? end : end - stop->size());
      return std::exchange(held_, {});
    }
  }
  const size_t start = possible_start();
  std::string shown = held_.substr(0, start);
  held_.erase(0, start);
  return shown;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace stoker
