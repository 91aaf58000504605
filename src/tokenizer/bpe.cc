#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace stoker {
namespace {

constexpr uint32_t kNone = Bpe::Workspace::kNone;

}  // namespace

Bpe::Bpe(const std::array<int32_t, 256>& byte_ids, size_t num_ids, std::span<const Merge> merges)
    : byte_ids_(byte_ids), starts_(num_ids + 1), entries_(merges.size()) {
  for (const Merge& merge : merges) ++starts_[static_cast<size_t>(merge.left) + 1];
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  std::vector<uint32_t> free(starts_.begin(), starts_.end() - 1);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    entries_[free[static_cast<size_t>(merge.left)]++] = {merge.right, static_cast<uint32_t>(rank),
                                                         merge.result};
  }
  for (size_t id = 0; id < num_ids; ++id) {
    std::sort(entries_.data() + starts_[id], entries_.data() + starts_[id + 1],
              [](const Entry& a, const Entry& b) { return a.right < b.right; });
  }
}

const Bpe::Entry* Bpe::find(int32_t left, int32_t right) const {
  const Entry* begin = entries_.data() + starts_[static_cast<size_t>(left)];
  const Entry* end = entries_.data() + starts_[static_cast<size_t>(left) + 1];
  const Entry* entry =
      std::lower_bound(begin, end, right, [](const Entry& a, int32_t id) { return a.right < id; });
  return entry != end && entry->right == right ? entry : nullptr;
}

uint32_t Bpe::rank_of(int32_t left, int32_t right) const {
  const Entry* entry = find(left, right);
  return entry != nullptr ? entry->rank : kNone;
}

void Bpe::encode(std::string_view piece, Workspace& workspace, std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  link(piece, workspace);
  merge_all(workspace);
  for (uint32_t at = 0; at != kNone; at = workspace.nodes[at].next)
    ids.push_back(workspace.nodes[at].id);
}

void Bpe::link(std::string_view piece, Workspace& workspace) const {
  CHECK(piece.size() < kNone, "a piece of less than 4 GiB");
  const auto size = static_cast<uint32_t>(piece.size());
  auto& nodes = workspace.nodes;
  auto& heap = workspace.heap;
  nodes.resize(size);
  heap.clear();
  for (uint32_t at = 0; at < size; ++at) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(piece[at])];
    nodes[at] = {id, at - 1, at + 1, kNone};  // the first one's previous is kNone
    if (at == 0) continue;
    nodes[at - 1].pair_rank = rank_of(nodes[at - 1].id, id);
    if (nodes[at - 1].pair_rank != kNone)
      heap.push_back(uint64_t{nodes[at - 1].pair_rank} << 32 | (at - 1));
  }
  nodes[size - 1].next = kNone;
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
}

void Bpe::merge_all(Workspace& workspace) const {
  auto& nodes = workspace.nodes;
  auto& heap = workspace.heap;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    auto& node = nodes[at];
    if (node.id == Workspace::kGone || node.pair_rank != top >> 32)
      continue;  // an earlier merge changed the pair
    auto& right = nodes[node.next];
    node.id = find(node.id, right.id)->result;
    node.next = right.next;
    right.id = Workspace::kGone;
    if (node.next != kNone) nodes[node.next].previous = at;
    refresh_pair(workspace, at);
    if (node.previous != kNone) refresh_pair(workspace, node.previous);
  }
}

void Bpe::refresh_pair(Workspace& workspace, uint32_t at) const {
  auto& node = workspace.nodes[at];
  node.pair_rank = node.next == kNone ? kNone : rank_of(node.id, workspace.nodes[node.next].id);
  if (node.pair_rank == kNone) return;
  workspace.heap.push_back(uint64_t{node.pair_rank} << 32 | at);
  std::push_heap(workspace.heap.begin(), workspace.heap.end(), std::greater<>());
}

}  // namespace stoker
