// Which blocks hold which tokens, so that a sequence can begin where another one already was.
//
// Full blocks form a tree: a node is a block, known by its parent and its token ids. Paths start at
// the root of a salt, so that salts share nothing. Ids are compared, not only their hashes: a hit
// is never wrong. Some nodes also hold an image of the slot as it was at their end; a sequence can
// start only from one of these (or from nothing). A node stays until its block is needed for
// somebody else: those that nobody uses go in the order of their last use, ends of paths first.
// Images have memory of their own and go by their value.
//
// The cache belongs to one model and one numeric mode, so these need not be part of a key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/kv_store.h"
#include "kv/sequence_state.h"

namespace stoker {

enum class NodeId : int32_t {};

/// A sequence's path in the tree: the nodes of its first blocks, which stay while it holds them.
/// Given back by PrefixCache::release; empty by then.
struct PrefixPath {
  int32_t root = -1;  ///< -1: none, before PrefixCache::open and after release
  std::vector<NodeId> nodes;
  std::vector<uint64_t> hashes;  ///< of the first blocks of the sequence's tokens, as far as known
  std::vector<NodeId> seen;      ///< what match() found, which may be gone
};

/// Units that were taken for an image which is not there yet.
struct PendingImage {
  ImageUnitId early{};
  std::optional<ImageUnitId> late;  ///< with late rings only
};

/// Owned by the engine; used by its thread alone. Allocates at its creation and for new salts, not
/// otherwise.
class PrefixCache {
 public:
  /// late_rows: what a whole image spares beyond the rows before it (the rows that bounded replay
  /// keeps); for the value of images.
  PrefixCache(KvStore& store, int64_t late_rows);

  /// Gives the path its root. Paths of different salts never meet.
  void open(PrefixPath& path, const std::string& salt);

  /// How many of the first blocks of `tokens` are in the cache, at most max_blocks; all of them are
  /// full. `unused` of them are used by nobody. Who waits may ask in every step: what was found
  /// before is looked at from its end. Changes nothing but path.hashes and path.seen.
  struct Match {
    int64_t num_blocks = 0;
    int64_t unused = 0;
  };
  Match match(PrefixPath& path, std::span<const int32_t> tokens, int64_t max_blocks) const;

  /// Where a sequence starts: after the tokens before `position`; 0: from nothing.
  struct Start {
    int64_t position = 0;
    bool is_whole = false;  ///< with the late rings
  };
  /// Makes the blocks that are found the path's, puts them into the empty state, and restores the
  /// last image among them at which the sequence may start: a whole one anywhere, one without late
  /// rings up to late_from.
  Start attach(PrefixPath& path, SequenceState& state, std::span<const int32_t> tokens,
               int64_t max_blocks, int64_t late_from);

  /// The next block of the path, full and final, is now findable; one that somebody else published
  /// before takes its place in the state. tokens: all of the sequence.
  void publish(PrefixPath& path, SequenceState& state, std::span<const int32_t> tokens);

  /// Makes the first blocks of `tokens` that are in the cache, at most max_blocks, the path's;
  /// returns how many they are. As attach(), without a state.
  int64_t hold(PrefixPath& path, std::span<const int32_t> tokens, int64_t max_blocks);
  /// The path's block number `index`.
  BlockId block(const PrefixPath& path, int64_t index) const {
    return at(path.nodes[static_cast<size_t>(index)]).block;
  }
  /// The next block of a path that holds all that is cached of `tokens`: full, final, and the
  /// cache's from now on, with the one reference that the caller had.
  void append(PrefixPath& path, std::span<const int32_t> tokens, BlockId block);
  /// The image of the path's node that ends at `position`, if it has one.
  std::optional<SlotImage> image(const PrefixPath& path, int64_t position) const;
  /// The tokens before images behind which, on their way through the tree, there are no others: the
  /// ends of what can be taken up under a salt. At most `max`, the one last used first.
  std::vector<std::vector<int32_t>> ends(const std::string& salt, size_t max) const;

  /// Whether the node of the path that ends at `position` holds an image, whole if that is asked.
  bool has_image(const PrefixPath& path, int64_t position, bool whole) const;
  /// Units for an image, taken from the least valuable images if need be. None: the memory for
  /// images is smaller than one.
  std::optional<PendingImage> take_image(bool whole);
  SlotImage view(const PendingImage& image) const;
  /// The image of the path's node that ends at `position`; an image that it had is replaced, and a
  /// better one stays.
  void add_image(const PrefixPath& path, int64_t position, const PendingImage& image);
  void drop_image(const PendingImage& image);
  /// The image at `position` is of no more use, unless somebody has started from it.
  void forget_image(const PrefixPath& path, int64_t position);

  /// Gives up the path; what was published stays findable.
  void release(PrefixPath& path);

  /// Blocks that nobody uses: they can be had by make_room().
  int64_t num_unused() const { return num_unused_; }
  /// Forgets unused blocks until `num_blocks` are free, as far as there are any.
  void make_room(int64_t num_blocks);

  /// Nothing that was published until now is found again.
  void reset();

  int64_t num_nodes() const { return num_nodes_; }
  int64_t num_images() const { return static_cast<int64_t>(images_.size()); }

  /// Adds the cache's references to blocks to `references` [num_blocks]; says what is wrong with
  /// the cache, given all paths that are open; empty: nothing. For tests.
  std::string integrity_problem(const std::vector<const PrefixPath*>& paths,
                                std::vector<int32_t>& references) const;

 private:
  static constexpr int32_t kNone = -1;

  struct Node {
    int32_t parent = kNone;  // node, or -2 - root
    BlockId block{};
    uint64_t hash = 0;
    int32_t next_in_bucket = kNone;
    int32_t num_children = 0;
    int32_t users = 0;      // paths
    int32_t older = kNone;  // in the list of unused nodes
    int32_t newer = kNone;
    int32_t image = kNone;  // index into images_
    bool is_live = false;
  };
  struct Image {
    int32_t node = kNone;
    PendingImage units;
    int64_t rows_spared = 0;
    int64_t uses = 0;
    int64_t last_use = 0;
  };
  struct Root {
    std::string salt;
    uint64_t hash = 0;
    int32_t users = 0;  // paths and children
    bool is_listed = false;
  };

  Node& at(NodeId node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(NodeId node) const { return nodes_[static_cast<size_t>(node)]; }
  std::span<const int32_t> ids_of(int32_t node) const;
  int32_t find(int32_t parent, uint64_t hash, std::span<const int32_t> ids) const;
  int32_t find_block(PrefixPath& path, int32_t parent, std::span<const int32_t> tokens,
                     int64_t block) const;
  uint64_t hash_of(PrefixPath& path, std::span<const int32_t> tokens, int64_t block) const;
  int32_t add_node(int32_t parent, uint64_t hash, std::span<const int32_t> ids, BlockId block);
  void remove_node(int32_t node);
  void use(int32_t node);
  void leave(int32_t node);
  void leave_root(int32_t root);
  void unlink_unused(int32_t node);
  void remove_image(int32_t image);
  int32_t least_valuable() const;
  int64_t rows_to_image_before(int32_t node) const;
  static int32_t parent_of_first(int32_t root) { return -2 - root; }

  KvStore& store_;
  const int64_t late_rows_;
  std::vector<Node> nodes_;  // [num_blocks]
  // [num_blocks, kBlockTokens]; like the blocks, in no memory before they are used.
  const std::unique_ptr<int32_t[]> ids_;
  std::vector<int32_t> free_;     // nodes
  std::vector<int32_t> buckets_;  // first node of each; a power of two
  std::vector<Image> images_;     // dense
  std::vector<Root> roots_;       // a root without users is free
  std::map<std::string, int32_t> root_of_salt_;
  int32_t oldest_unused_ = kNone;
  int32_t newest_unused_ = kNone;
  int64_t num_unused_ = 0;
  int64_t num_nodes_ = 0;
  int64_t clock_ = 0;  // of uses of images
  uint64_t next_root_hash_;
};

}  // namespace stoker
