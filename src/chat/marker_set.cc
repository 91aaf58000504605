#include "chat/marker_set.h"

namespace stoker::chat {

MarkerSet::MarkerSet(const std::vector<Marker>& markers) : entries_(1) {
  is_plain_.fill(true);
  is_plain_['\n'] = false;
  for (const Marker& marker : markers) {
    is_plain_[static_cast<uint8_t>(marker.text[0])] = false;
    add(marker, static_cast<uint8_t>(texts_.size()));
    texts_.push_back(marker.text);
  }
  link();
}

void MarkerSet::add(const Marker& marker, uint8_t index) {
  Node node = kRoot;
  for (const char byte : marker.text) {
    Node next = child(node, byte);
    if (next == kNone) {
      next = static_cast<Node>(entries_.size());
      Entry entry;
      entry.sibling = at(node).first_child;
      entry.marker = index;
      entry.depth = static_cast<uint8_t>(at(node).depth + 1);
      entry.byte = byte;
      entries_.push_back(entry);
      at(node).first_child = next;
    }
    node = next;
  }
  at(node).mark = marker.mark;
}

// Breadth first: the fallback of a node is shorter, so it is known before.
void MarkerSet::link() {
  std::vector<Node> queue = {kRoot};
  for (size_t i = 0; i < queue.size(); ++i) {
    const Node node = queue[i];
    for (Node next = at(node).first_child; next != kNone; next = at(next).sibling) {
      queue.push_back(next);
      if (node == kRoot) continue;
      Node from = fallback(node);
      while (from != kRoot && child(from, at(next).byte) == kNone) from = fallback(from);
      const Node found = child(from, at(next).byte);
      at(next).fallback = found == kNone ? kRoot : found;
    }
  }
}

MarkerSet::Node MarkerSet::child(Node node, char byte) const {
  Node next = at(node).first_child;
  while (next != kNone && at(next).byte != byte) next = at(next).sibling;
  return next;
}

std::string_view MarkerSet::text(Node node) const {
  if (node == kRoot) return {};
  return std::string_view(texts_[at(node).marker]).substr(0, at(node).depth);
}

size_t MarkerSet::num_plain(std::string_view text) const {
  size_t n = 0;
  while (n < text.size() && is_plain_[static_cast<uint8_t>(text[n])]) ++n;
  return n;
}

}  // namespace stoker::chat
