#include "sampling/token_counts.h"

#include <algorithm>

namespace stoker::sampling {
namespace {

bool is_before(const TokenCounts::Entry& entry, int32_t id) {
  return entry.id < id;
}

}  // namespace

TokenCounts::TokenCounts(std::span<const int32_t> prompt) {
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  entries_.reserve(ids.size());
  for (const int32_t id : ids) entries_.push_back({id, 0});
}

void TokenCounts::accept(int32_t id) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), id, is_before);
  if (at != entries_.end() && at->id == id) {
    ++at->count;
  } else {
    entries_.insert(at, {id, 1});
  }
}

int32_t TokenCounts::count_of(int32_t id) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), id, is_before);
  return at != entries_.end() && at->id == id ? at->count : -1;
}

}  // namespace stoker::sampling
