#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace stoker {
namespace {

// Levenshtein's distance, a row of its table at a time.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view found, std::span<const std::string_view> names) {
  return *std::ranges::min_element(
      names, {}, [found](std::string_view name) { return distance(found, name); });
}

}  // namespace stoker
