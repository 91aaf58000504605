#include "grammar/trie.h"

#include <algorithm>

namespace stoker::grammar {

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> strings) {
  std::sort(strings.begin(), strings.end());
  nodes_.push_back({});
  std::vector<uint32_t> path = {0};  // the nodes of the last string, from the root
  std::string_view last;
  const auto close_to = [&](size_t depth) {
    while (path.size() > depth + 1) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const auto& [bytes, id] : strings) {
    const auto [at, unused] = std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end());
    const auto common = static_cast<size_t>(at - last.begin());
    close_to(common);
    for (size_t i = common; i < bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), static_cast<uint16_t>(i + 1),
                        static_cast<uint8_t>(bytes[i])});
    }
    tokens_.push_back(id);
    max_depth_ = std::max(max_depth_, bytes.size());
    last = bytes;
  }
  close_to(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(
      {static_cast<uint32_t>(nodes_.size()), static_cast<uint32_t>(tokens_.size()), 0, 0});
}

}  // namespace stoker::grammar
