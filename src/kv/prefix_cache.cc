#include "kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <utility>

#include "base/check.h"

namespace stoker {
namespace {

// The tokens that fill a block.
std::span<const int32_t> ids_of_block(std::span<const int32_t> tokens, int64_t block) {
  return tokens.subspan(static_cast<size_t>(block * kBlockTokens), kBlockTokens);
}

uint64_t mixed(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15U;
  return x ^ x >> 29;
}

}  // namespace

PrefixCache::PrefixCache(KvStore& store, int64_t late_rows)
    : store_(store),
      late_rows_(late_rows),
      nodes_(static_cast<size_t>(store.plan().num_blocks)),
      ids_(std::make_unique_for_overwrite<int32_t[]>(
          static_cast<size_t>(store.plan().num_blocks * kBlockTokens))),
      buckets_(std::bit_ceil(static_cast<size_t>(store.plan().num_blocks) + 1), kNone),
      // Nobody outside can make ids whose hashes meet.
      next_root_hash_(static_cast<uint64_t>(std::random_device()()) << 32 |
                      std::random_device()()) {
  free_.reserve(nodes_.size());
  images_.reserve(static_cast<size_t>(store.plan().num_image_units));
  for (auto node = static_cast<int32_t>(nodes_.size()); node-- > 0;) free_.push_back(node);
}

void PrefixCache::open(PrefixPath& path, const std::string& salt) {
  CHECK(path.root < 0, "a path is opened once");
  const auto known = root_of_salt_.find(salt);
  if (known != root_of_salt_.end()) {
    path.root = known->second;
  } else {
    const auto is_free = [](const Root& root) { return root.users == 0; };
    auto root = std::find_if(roots_.begin(), roots_.end(), is_free);
    if (root == roots_.end()) root = roots_.insert(root, Root{});
    next_root_hash_ = mixed(next_root_hash_ + 1);
    *root = {salt, next_root_hash_, 0, true};
    path.root = static_cast<int32_t>(root - roots_.begin());
    root_of_salt_.emplace(salt, path.root);
  }
  ++roots_[static_cast<size_t>(path.root)].users;
  path.hashes.clear();  // they begin with the root's
  path.seen.clear();
}

std::span<const int32_t> PrefixCache::ids_of(int32_t node) const {
  return {ids_.get() + static_cast<int64_t>(node) * kBlockTokens, kBlockTokens};
}

// The chain hash of the sequence's block number `block`, which its tokens fill.
uint64_t PrefixCache::hash_of(PrefixPath& path, std::span<const int32_t> tokens,
                              int64_t block) const {
  while (static_cast<int64_t>(path.hashes.size()) <= block) {
    uint64_t hash =
        path.hashes.empty() ? roots_[static_cast<size_t>(path.root)].hash : path.hashes.back();
    for (const int32_t id : ids_of_block(tokens, static_cast<int64_t>(path.hashes.size())))
      hash = mixed(hash ^ static_cast<uint64_t>(id)) + 1;
    path.hashes.push_back(hash);
  }
  return path.hashes[static_cast<size_t>(block)];
}

int32_t PrefixCache::find(int32_t parent, uint64_t hash, std::span<const int32_t> ids) const {
  int32_t node = buckets_[hash & (buckets_.size() - 1)];
  for (; node != kNone; node = nodes_[static_cast<size_t>(node)].next_in_bucket) {
    const Node& found = nodes_[static_cast<size_t>(node)];
    if (found.hash == hash && found.parent == parent && std::ranges::equal(ids_of(node), ids))
      return node;
  }
  return kNone;
}

// The node of the sequence's block number `block` below `parent`, or kNone.
int32_t PrefixCache::find_block(PrefixPath& path, int32_t parent, std::span<const int32_t> tokens,
                                int64_t block) const {
  return find(parent, hash_of(path, tokens, block), ids_of_block(tokens, block));
}

PrefixCache::Match PrefixCache::match(PrefixPath& path, std::span<const int32_t> tokens,
                                      int64_t max_blocks) const {
  std::vector<NodeId>& seen = path.seen;
  const auto parent_at = [&](size_t i) {
    return i == 0 ? parent_of_first(path.root) : static_cast<int32_t>(seen[i - 1]);
  };
  // A node goes after all that follow it, so what is before one that is there is there too.
  const auto is_there = [&](size_t i) {
    const Node& node = at(seen[i]);
    return node.is_live && node.hash == path.hashes[i] && node.parent == parent_at(i);
  };
  while (!seen.empty() && !is_there(seen.size() - 1)) seen.pop_back();
  while (static_cast<int64_t>(seen.size()) < max_blocks) {
    const int32_t node =
        find_block(path, parent_at(seen.size()), tokens, static_cast<int64_t>(seen.size()));
    if (node == kNone) break;
    seen.push_back(static_cast<NodeId>(node));
  }
  // Who uses a node uses those before it: the unused ones are at the end.
  const auto unused = std::partition_point(
      seen.begin(), seen.end(), [this](const NodeId node) { return at(node).users > 0; });
  return {static_cast<int64_t>(seen.size()), seen.end() - unused};
}

int64_t PrefixCache::hold(PrefixPath& path, std::span<const int32_t> tokens, int64_t max_blocks) {
  CHECK(path.nodes.empty(), "a path is attached once");
  int32_t parent = parent_of_first(path.root);
  for (int64_t block = 0; block < max_blocks; ++block) {
    const int32_t node = find_block(path, parent, tokens, block);
    if (node == kNone) break;
    use(node);
    path.nodes.push_back(static_cast<NodeId>(node));
    parent = node;
  }
  return static_cast<int64_t>(path.nodes.size());
}

PrefixCache::Start PrefixCache::attach(PrefixPath& path, SequenceState& state,
                                       std::span<const int32_t> tokens, int64_t max_blocks,
                                       int64_t late_from) {
  const int64_t num_blocks = hold(path, tokens, max_blocks);
  std::vector<BlockId> blocks;
  for (int64_t i = 0; i < num_blocks; ++i) blocks.push_back(block(path, i));
  state.share(blocks);
  for (auto i = static_cast<int64_t>(blocks.size()); i > 0; --i) {
    const int32_t number = at(path.nodes[static_cast<size_t>(i - 1)]).image;
    if (number == kNone) continue;
    Image& image = images_[static_cast<size_t>(number)];
    const SlotImage slot = view(image.units);
    if (!slot.is_whole() && i * kBlockTokens > late_from) continue;
    state.restore(slot, i * kBlockTokens);
    image.last_use = ++clock_;
    ++image.uses;
    return {i * kBlockTokens, slot.is_whole()};
  }
  return {};
}

void PrefixCache::publish(PrefixPath& path, SequenceState& state, std::span<const int32_t> tokens) {
  const auto block = static_cast<int64_t>(path.nodes.size());
  const int32_t parent =
      block == 0 ? parent_of_first(path.root) : static_cast<int32_t>(path.nodes.back());
  int32_t node = find_block(path, parent, tokens, block);
  if (node == kNone) {
    node = add_node(parent, hash_of(path, tokens, block), ids_of_block(tokens, block),
                    state.blocks()[static_cast<size_t>(block)]);
    ++nodes_[static_cast<size_t>(node)].users;
  } else {
    use(node);
    state.replace_block(block, nodes_[static_cast<size_t>(node)].block);
  }
  path.nodes.push_back(static_cast<NodeId>(node));
}

void PrefixCache::append(PrefixPath& path, std::span<const int32_t> tokens, BlockId block) {
  const auto index = static_cast<int64_t>(path.nodes.size());
  const int32_t parent =
      index == 0 ? parent_of_first(path.root) : static_cast<int32_t>(path.nodes.back());
  CHECK(find_block(path, parent, tokens, index) == kNone, "a block is in the cache once");
  const int32_t node =
      add_node(parent, hash_of(path, tokens, index), ids_of_block(tokens, index), block);
  ++nodes_[static_cast<size_t>(node)].users;
  store_.release_block(block);
  path.nodes.push_back(static_cast<NodeId>(node));
}

int32_t PrefixCache::add_node(int32_t parent, uint64_t hash, std::span<const int32_t> ids,
                              BlockId block) {
  CHECK(!free_.empty(), "a node has a block of its own, and there are as many");
  const int32_t node = free_.back();
  free_.pop_back();
  int32_t& bucket = buckets_[hash & (buckets_.size() - 1)];
  nodes_[static_cast<size_t>(node)] = {
      .parent = parent, .block = block, .hash = hash, .next_in_bucket = bucket, .is_live = true};
  bucket = node;
  std::ranges::copy(ids, ids_.get() + static_cast<int64_t>(node) * kBlockTokens);
  if (parent >= 0) {
    ++nodes_[static_cast<size_t>(parent)].num_children;
  } else {
    ++roots_[static_cast<size_t>(-2 - parent)].users;
  }
  store_.retain_block(block);
  ++num_nodes_;
  return node;
}

// An unused node without children, already out of the list of unused ones.
void PrefixCache::remove_node(int32_t node) {
  Node& removed = nodes_[static_cast<size_t>(node)];
  CHECK(removed.users == 0 && removed.num_children == 0, "ends of paths go first");
  if (removed.image != kNone) remove_image(removed.image);
  int32_t* link = &buckets_[removed.hash & (buckets_.size() - 1)];
  while (*link != node) link = &nodes_[static_cast<size_t>(*link)].next_in_bucket;
  *link = removed.next_in_bucket;
  store_.release_block(removed.block);
  removed.is_live = false;
  free_.push_back(node);
  --num_nodes_;
  if (removed.parent >= 0) {
    --nodes_[static_cast<size_t>(removed.parent)].num_children;
  } else {
    leave_root(-2 - removed.parent);
  }
}

void PrefixCache::leave_root(int32_t root) {
  Root& left = roots_[static_cast<size_t>(root)];
  if (--left.users > 0 || !left.is_listed) return;
  root_of_salt_.erase(left.salt);
  left.is_listed = false;
}

void PrefixCache::use(int32_t node) {
  if (nodes_[static_cast<size_t>(node)].users++ == 0) unlink_unused(node);
}

// Behind all that were left before: the list is in the order of the last use, and because a path is
// left from its end, a node comes behind its children.
void PrefixCache::leave(int32_t node) {
  Node& left = nodes_[static_cast<size_t>(node)];
  if (--left.users > 0) return;
  left.older = newest_unused_;
  left.newer = kNone;
  (newest_unused_ == kNone ? oldest_unused_ : nodes_[static_cast<size_t>(newest_unused_)].newer) =
      node;
  newest_unused_ = node;
  ++num_unused_;
}

void PrefixCache::unlink_unused(int32_t node) {
  const Node& taken = nodes_[static_cast<size_t>(node)];
  (taken.older == kNone ? oldest_unused_ : nodes_[static_cast<size_t>(taken.older)].newer) =
      taken.newer;
  (taken.newer == kNone ? newest_unused_ : nodes_[static_cast<size_t>(taken.newer)].older) =
      taken.older;
  --num_unused_;
}

void PrefixCache::release(PrefixPath& path) {
  for (size_t i = path.nodes.size(); i-- > 0;) leave(static_cast<int32_t>(path.nodes[i]));
  path.nodes.clear();
  if (path.root >= 0) leave_root(path.root);
  path.root = -1;
}

void PrefixCache::make_room(int64_t num_blocks) {
  while (store_.num_free_blocks() < num_blocks && oldest_unused_ != kNone) {
    const int32_t node = oldest_unused_;
    unlink_unused(node);
    remove_node(node);
  }
}

void PrefixCache::reset() {
  while (!images_.empty()) remove_image(static_cast<int32_t>(images_.size()) - 1);
  make_room(store_.plan().num_blocks);
  for (Root& root : roots_) root.is_listed = false;  // those in use go with their last user
  root_of_salt_.clear();
}

// --- Images ---

bool PrefixCache::has_image(const PrefixPath& path, int64_t position, bool whole) const {
  const int32_t number = at(path.nodes[static_cast<size_t>(position / kBlockTokens - 1)]).image;
  return number != kNone && (!whole || view(images_[static_cast<size_t>(number)].units).is_whole());
}

std::optional<SlotImage> PrefixCache::image(const PrefixPath& path, int64_t position) const {
  const int32_t number = at(path.nodes[static_cast<size_t>(position / kBlockTokens - 1)]).image;
  if (number == kNone) return std::nullopt;
  return view(images_[static_cast<size_t>(number)].units);
}

std::vector<std::vector<int32_t>> PrefixCache::ends(const std::string& salt, size_t max) const {
  const auto root = root_of_salt_.find(salt);
  if (root == root_of_salt_.end()) return {};
  std::vector<bool> has_more(nodes_.size(), false);  // an image further down
  for (const Image& image : images_) {
    int32_t up = nodes_[static_cast<size_t>(image.node)].parent;
    for (; up >= 0 && !has_more[static_cast<size_t>(up)];
         up = nodes_[static_cast<size_t>(up)].parent)
      has_more[static_cast<size_t>(up)] = true;
  }
  std::vector<const Image*> last;
  for (const Image& image : images_) {
    if (!has_more[static_cast<size_t>(image.node)]) last.push_back(&image);
  }
  std::ranges::sort(last, std::greater<>(), &Image::last_use);
  std::vector<std::vector<int32_t>> all;
  for (const Image* image : last) {
    if (all.size() == max) break;
    std::vector<int32_t> nodes;
    int32_t up = image->node;
    for (; up >= 0; up = nodes_[static_cast<size_t>(up)].parent) nodes.push_back(up);
    if (-2 - up != root->second) continue;
    std::vector<int32_t>& tokens = all.emplace_back();
    for (size_t i = nodes.size(); i-- > 0;)
      tokens.insert(tokens.end(), ids_of(nodes[i]).begin(), ids_of(nodes[i]).end());
  }
  return all;
}

SlotImage PrefixCache::view(const PendingImage& image) const {
  return {store_.shape(), store_.image_unit(image.early),
          image.late ? store_.image_unit(*image.late) : nullptr};
}

std::optional<PendingImage> PrefixCache::take_image(bool whole) {
  const bool two = whole && store_.shape().has_late_rings();
  const int64_t needed = two ? 2 : 1;
  if (store_.plan().num_image_units < needed) return std::nullopt;
  while (store_.num_free_image_units() < needed) {
    if (images_.empty()) return std::nullopt;  // all pending
    remove_image(least_valuable());
  }
  PendingImage image{*store_.take_image_unit(), std::nullopt};
  if (two) image.late = store_.take_image_unit();
  return image;
}

void PrefixCache::drop_image(const PendingImage& image) {
  store_.release_image_unit(image.early);
  if (image.late) store_.release_image_unit(*image.late);
}

void PrefixCache::add_image(const PrefixPath& path, int64_t position, const PendingImage& image) {
  const auto node =
      static_cast<int32_t>(path.nodes[static_cast<size_t>(position / kBlockTokens - 1)]);
  const bool whole = view(image).is_whole();
  if (has_image(path, position, whole)) {
    drop_image(image);
    return;
  }
  Node& holder = nodes_[static_cast<size_t>(node)];
  if (holder.image != kNone) remove_image(holder.image);
  const int64_t spared = rows_to_image_before(node) + (whole ? std::min(late_rows_, position) : 0);
  holder.image = static_cast<int32_t>(images_.size());
  images_.push_back({node, image, spared, 0, ++clock_});
}

void PrefixCache::forget_image(const PrefixPath& path, int64_t position) {
  const int32_t image = at(path.nodes[static_cast<size_t>(position / kBlockTokens - 1)]).image;
  if (image != kNone && images_[static_cast<size_t>(image)].uses == 0) remove_image(image);
}

int64_t PrefixCache::rows_to_image_before(int32_t node) const {
  int64_t blocks = 1;
  for (int32_t up = nodes_[static_cast<size_t>(node)].parent; up >= 0; ++blocks) {
    const Node& parent = nodes_[static_cast<size_t>(up)];
    if (parent.image != kNone) break;
    up = parent.parent;
  }
  return blocks * kBlockTokens;
}

void PrefixCache::remove_image(int32_t image) {
  Image& removed = images_[static_cast<size_t>(image)];
  nodes_[static_cast<size_t>(removed.node)].image = kNone;
  drop_image(removed.units);
  if (static_cast<size_t>(image) + 1 < images_.size()) {
    removed = images_.back();
    nodes_[static_cast<size_t>(removed.node)].image = image;
  }
  images_.pop_back();
}

// Rows that it spares, times how often it did, over how long ago that was.
int32_t PrefixCache::least_valuable() const {
  const auto value = [this](const Image& image) {
    return static_cast<double>(image.rows_spared * (1 + image.uses)) /
           static_cast<double>(clock_ - image.last_use + 1);
  };
  const auto least = std::ranges::min_element(images_, {}, value);
  return static_cast<int32_t>(least - images_.begin());
}

// --- Integrity ---

std::string PrefixCache::integrity_problem(const std::vector<const PrefixPath*>& paths,
                                           std::vector<int32_t>& references) const {
  std::vector<int32_t> users(nodes_.size(), 0);
  std::vector<int32_t> children(nodes_.size(), 0);
  std::vector<int32_t> root_users(roots_.size(), 0);
  for (const PrefixPath* path : paths) {
    if (path->root >= 0) ++root_users[static_cast<size_t>(path->root)];
    for (const NodeId node : path->nodes) ++users[static_cast<size_t>(node)];
  }
  int64_t num_units = 0;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const Node& live = nodes_[node];
    if (!live.is_live) continue;
    ++references[static_cast<size_t>(live.block)];
    if (live.parent >= 0) {
      ++children[static_cast<size_t>(live.parent)];
      if (!nodes_[static_cast<size_t>(live.parent)].is_live) return "a node without its parent";
    } else {
      ++root_users[static_cast<size_t>(-2 - live.parent)];
    }
    if (find(live.parent, live.hash, ids_of(static_cast<int32_t>(node))) !=
        static_cast<int32_t>(node)) {
      return "node " + std::to_string(node) + " is not found, or is there twice";
    }
    if (live.image != kNone &&
        images_[static_cast<size_t>(live.image)].node != static_cast<int32_t>(node)) {
      return "node " + std::to_string(node) + ": its image is another's";
    }
  }
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].is_live) continue;
    if (nodes_[node].users != users[node])
      return "node " + std::to_string(node) + ": a lost user, or one too many";
    if (nodes_[node].num_children != children[node])
      return "node " + std::to_string(node) + ": a lost child";
  }
  for (size_t root = 0; root < roots_.size(); ++root) {
    if (roots_[root].users != root_users[root]) return "a root: a lost user, or one too many";
  }
  int64_t num_unused = 0;
  for (int32_t node = oldest_unused_; node != kNone;
       node = nodes_[static_cast<size_t>(node)].newer) {
    if (nodes_[static_cast<size_t>(node)].users != 0) return "a node in use is in the unused list";
    ++num_unused;
  }
  const auto is_unused = [](const Node& node) { return node.is_live && node.users == 0; };
  if (num_unused != num_unused_ || num_unused != std::ranges::count_if(nodes_, is_unused))
    return "the list of unused nodes is not all of them";
  for (const Image& image : images_) {
    if (!nodes_[static_cast<size_t>(image.node)].is_live) return "an image without its node";
    num_units += image.units.late ? 2 : 1;
  }
  if (num_units + store_.num_free_image_units() != store_.plan().num_image_units)
    return "an image unit is lost";
  return {};
}

}  // namespace stoker
