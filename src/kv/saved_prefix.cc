#include "kv/saved_prefix.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/try.h"

namespace stoker {
namespace {

constexpr int64_t kNumberBytes = 8;

Error damaged_prefix(const std::string& what) {
  return {ErrorCode::kCorruptData, "saved prefix: " + what, ""};
}

Error cut_prefix(const std::string& what, int64_t expected, int64_t found) {
  return damaged_prefix("expected " + std::to_string(expected) + " bytes of " + what + ", found " +
                        std::to_string(found));
}

struct Size {
  const char* name;
  int64_t value;
};

// What all saved prefixes of a model have in common.
std::vector<Size> sizes_of(const KvShape& shape) {
  std::vector<Size> sizes = {{"tokens of a block", kBlockTokens},
                             {"head_dim", shape.head_dim},
                             {"index_head_dim", shape.index_head_dim},
                             {"sliding_window", shape.window},
                             {"window rings", shape.num_rings},
                             {"window rings of the draft head", shape.num_draft_rings},
                             {"KV sources", static_cast<int64_t>(shape.sources.size())}};
  for (const KvShape::Source& source : shape.sources) {
    sizes.push_back({"layer of a KV source", source.layer});
    sizes.push_back({"ratio of a KV source", source.ratio});
  }
  return sizes;
}

// What is used of a block: without what fills it up.
int64_t block_records_bytes(const KvShape& shape) {
  return shape.latents_offset(shape.sources.size());
}

// Rows of a layer that a later position may see, itself not among them; a round of drafts sees one
// more.
int64_t num_layer_rows(const KvShape& shape, int64_t position) {
  return std::min<int64_t>(shape.window - 1, position);
}

int64_t num_draft_rows(const KvShape& shape, const SavedPrefix::Image& image) {
  return std::min<int64_t>(shape.window, image.position - image.draft_from);
}

// Rings of an image; early_rings: of one that is not whole.
int64_t num_rings_of(const KvShape& shape, const SavedPrefix::Image& image, int64_t early_rings) {
  return image.whole ? shape.num_rings - shape.num_draft_rings : early_rings;
}

int64_t image_rows_bytes(const KvShape& shape, const SavedPrefix::Image& image,
                         int64_t early_rings) {
  int64_t rows = num_rings_of(shape, image, early_rings) * num_layer_rows(shape, image.position);
  if (image.whole) rows += shape.num_draft_rings * num_draft_rows(shape, image);
  return rows * shape.window_record();
}

// Calls row(ring, position) for each row of an image, in the order in which they are saved.
template <class Row>
void for_each_row(const KvShape& shape, const SavedPrefix::Image& image, int64_t early_rings,
                  const Row& row) {
  const auto rings = static_cast<int32_t>(num_rings_of(shape, image, early_rings));
  for (int32_t ring = 0; ring < rings; ++ring) {
    for (int64_t back = num_layer_rows(shape, image.position); back > 0; --back)
      row(ring, image.position - back);
  }
  if (!image.whole) return;
  for (int32_t ring = rings; ring < shape.num_rings; ++ring) {
    for (int64_t back = num_draft_rows(shape, image); back > 0; --back)
      row(ring, image.position - back);
  }
}

// Takes what it reads off the bytes.
class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  Result<const uint8_t*> take(const std::string& what, int64_t bytes) {
    if (bytes < 0 || bytes > left()) return cut_prefix(what, bytes, left());
    const uint8_t* const taken = rest_.data();
    rest_ = rest_.subspan(static_cast<size_t>(bytes));
    return taken;
  }

  /// A number in [least, most].
  Result<int64_t> number(const std::string& what, int64_t least, int64_t most) {
    TRY_ASSIGN(const uint8_t* const from, take(what, kNumberBytes));
    const auto value = load_le<int64_t>(from);
    if (value >= least && value <= most) return value;
    return damaged_prefix(what + ": expected " + std::to_string(least) + " to " +
                          std::to_string(most) + ", found " + std::to_string(value));
  }

  int64_t left() const { return static_cast<int64_t>(rest_.size()); }

 private:
  Bytes rest_;
};

Result<void> read_sizes(Reader& reader, const KvShape& shape) {
  for (const Size& size : sizes_of(shape)) {
    TRY_ASSIGN(const int64_t found, reader.number(size.name, 0, INT32_MAX));
    if (found == size.value) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "saved prefix: " + std::string(size.name) + ": expected " +
                     std::to_string(size.value) + ", found " + std::to_string(found) +
                     ": it is of another model",
                 ""};
  }
  return {};
}

Result<std::vector<SavedPrefix::Image>> read_images(Reader& reader, int64_t num_tokens) {
  const int64_t num_blocks = num_tokens / kBlockTokens;
  TRY_ASSIGN(const int64_t count, reader.number("images", 1, num_blocks));
  if (count > reader.left() / (3 * kNumberBytes))
    return cut_prefix("images", count * 3 * kNumberBytes, reader.left());
  std::vector<SavedPrefix::Image> images(static_cast<size_t>(count));
  int64_t before = 0;
  for (SavedPrefix::Image& image : images) {
    TRY_ASSIGN(image.position, reader.number("an image's position", before + 1, num_tokens));
    TRY_ASSIGN(const int64_t whole, reader.number("a whole image", 0, 1));
    TRY_ASSIGN(image.draft_from, reader.number("rows of drafts", 0, image.position));
    image.whole = whole == 1;
    before = image.position;
    if (image.position % kBlockTokens != 0)
      return damaged_prefix("an image's position: expected a multiple of " +
                            std::to_string(kBlockTokens) + ", found " + std::to_string(before));
  }
  if (before != num_tokens)
    return damaged_prefix("the last image: expected it at " + std::to_string(num_tokens) +
                          ", found " + std::to_string(before));
  return images;
}

Result<std::vector<int32_t>> read_ids(Reader& reader, int64_t num_tokens, int64_t vocab_size) {
  const auto id_bytes = static_cast<int64_t>(sizeof(int32_t));
  TRY_ASSIGN(const uint8_t* const from, reader.take("token ids", num_tokens * id_bytes));
  std::vector<int32_t> ids(static_cast<size_t>(num_tokens));
  std::memcpy(ids.data(), from, ids.size() * sizeof(int32_t));
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size)
      return damaged_prefix("expected token ids from 0 to " + std::to_string(vocab_size - 1) +
                            ", found " + std::to_string(id));
  }
  return ids;
}

void append_bytes(std::vector<uint8_t>& out, const void* from, int64_t bytes) {
  const auto* const begin = static_cast<const uint8_t*>(from);
  out.insert(out.end(), begin, begin + bytes);
}

void append_number(std::vector<uint8_t>& out, int64_t value) {
  append_bytes(out, &value, kNumberBytes);
}

// The images of a path that are saved, ascending.
std::vector<SavedPrefix::Image> images_to_save(const PrefixCache& cache, const KvShape& shape,
                                               const PrefixPath& path, int64_t gate) {
  std::vector<SavedPrefix::Image> images;
  for (auto i = static_cast<int64_t>(path.nodes.size()); i > 0; --i) {
    const auto image = cache.image(path, i * kBlockTokens);
    if (!image) continue;
    SavedPrefix::Image& saved = images.emplace_back();
    saved.position = i * kBlockTokens;
    saved.whole = image->is_whole();
    saved.draft_from = saved.whole && shape.num_draft_rings > 0
                           ? std::clamp<int64_t>(image->draft_from(), 0, saved.position)
                           : saved.position;
    if (saved.whole || saved.position <= gate) break;
  }
  std::ranges::reverse(images);
  return images;
}

// A path of the tree that is given back at the end.
class HeldPath {
 public:
  HeldPath(PrefixCache& cache, std::span<const int32_t> ids) : cache_(cache) {
    const auto num_blocks = static_cast<int64_t>(ids.size()) / kBlockTokens;
    path_.nodes.reserve(static_cast<size_t>(num_blocks));
    path_.hashes.reserve(static_cast<size_t>(num_blocks));
    cache_.open(path_, "");
    cache_.hold(path_, ids, num_blocks);
  }
  HeldPath(const HeldPath&) = delete;
  HeldPath& operator=(const HeldPath&) = delete;
  ~HeldPath() { cache_.release(path_); }

  PrefixPath& operator*() { return path_; }
  int64_t num_blocks() const { return static_cast<int64_t>(path_.nodes.size()); }

 private:
  PrefixCache& cache_;
  PrefixPath path_;
};

Error no_room(const std::string& what, int64_t needed, int64_t there) {
  return {ErrorCode::kResourceExhausted,
          "a saved prefix needs " + std::to_string(needed) + " " + what + ", and " +
              std::to_string(there) + " can be had: give the engine more memory",
          ""};
}

// Images to be made, and their units.
struct Made {
  const SavedPrefix::Image* saved;
  PendingImage units;
};

// None of them is taken from another of these: they are pending until all are there.
Result<std::vector<Made>> take_images(PrefixCache& cache, const KvStore& store,
                                      const SavedPrefix& saved) {
  const KvShape& shape = store.shape();
  int64_t needed = 0;
  for (const SavedPrefix::Image& image : saved.images())
    needed += image.whole && shape.has_late_rings() ? 2 : 1;
  if (needed > store.plan().num_image_units)
    return no_room("units of images", needed, store.plan().num_image_units);
  std::vector<Made> made;
  made.reserve(saved.images().size());
  for (const SavedPrefix::Image& image : saved.images()) {
    if (const auto units = cache.take_image(image.whole)) made.push_back({&image, *units});
  }
  return made;
}

void fill_image(const SlotImage& image, const SavedPrefix::Image& saved, const SavedPrefix& all,
                const KvShape& shape, std::span<const int32_t> token_map) {
  const auto bytes = static_cast<size_t>(shape.window_record());
  const uint8_t* from = saved.rows;
  for_each_row(shape, saved, shape.num_early_rings, [&](int32_t ring, int64_t position) {
    std::memcpy(image.window_row(ring, position), from, bytes);
    from += bytes;
  });
  if (shape.num_draft_rings > 0) image.set_draft_from(saved.draft_from);
  for (int64_t position = std::max<int64_t>(0, saved.position - shape.history);
       position < saved.position; ++position) {
    const int32_t id = all.ids()[static_cast<size_t>(position)];
    image.set_history(position, token_map[static_cast<size_t>(id)]);
  }
}

}  // namespace

Result<SavedPrefix> SavedPrefix::read(Bytes bytes, const KvShape& shape, int64_t vocab_size) {
  Reader reader(bytes);
  if (auto fits = read_sizes(reader, shape); !fits) return std::move(fits).error();
  const int64_t layers = shape.num_rings - shape.num_draft_rings;
  TRY_ASSIGN(const int64_t early_rings, reader.number("early window rings", 0, shape.num_rings));
  TRY_ASSIGN(const int64_t num_tokens, reader.number("tokens", kBlockTokens, reader.left()));
  if (num_tokens % kBlockTokens != 0)
    return damaged_prefix("tokens: expected a multiple of " + std::to_string(kBlockTokens) +
                          ", found " + std::to_string(num_tokens));
  SavedPrefix saved;
  TRY_ASSIGN(saved.images_, read_images(reader, num_tokens));
  TRY_ASSIGN(saved.ids_, read_ids(reader, num_tokens, vocab_size));
  saved.block_bytes_ = block_records_bytes(shape);
  TRY_ASSIGN(saved.blocks_, reader.take("blocks", saved.num_blocks() * saved.block_bytes_));
  for (Image& image : saved.images_) {
    if (!image.whole && early_rings > layers)
      return damaged_prefix("expected whole images, found another");
    TRY_ASSIGN(image.rows, reader.take("an image", image_rows_bytes(shape, image, early_rings)));
  }
  if (reader.left() != 0)
    return damaged_prefix("expected nothing behind the last image, found " +
                          std::to_string(reader.left()) + " bytes");
  std::erase_if(saved.images_, [&](const Image& image) {
    return !image.whole && (early_rings != shape.num_early_rings || !shape.has_late_rings());
  });
  if (saved.images_.empty())
    return Error{ErrorCode::kUnsupported,
                 "saved prefix: expected an image that can be taken up with this bounded replay, "
                 "found those of another one",
                 ""};
  return saved;
}

Result<int64_t> save_prefix(PrefixCache& cache, KvStore& store, std::span<const int32_t> ids,
                            int64_t gate, std::vector<uint8_t>& out) {
  const KvShape& shape = store.shape();
  HeldPath path(cache, ids);
  const std::vector<SavedPrefix::Image> images = images_to_save(cache, shape, *path, gate);
  if (images.empty())
    return Error{ErrorCode::kNotFound,
                 "the prefix cache holds no place in these tokens at which one can begin", ""};
  const int64_t num_tokens = images.back().position;
  const int64_t block_bytes = block_records_bytes(shape);
  const auto id_bytes = static_cast<int64_t>(sizeof(int32_t));
  const std::vector<Size> sizes = sizes_of(shape);
  int64_t total = (static_cast<int64_t>(sizes.size() + 3 * images.size()) + 3) * kNumberBytes +
                  num_tokens * id_bytes + num_tokens / kBlockTokens * block_bytes;
  for (const SavedPrefix::Image& image : images)
    total += image_rows_bytes(shape, image, shape.num_early_rings);
  out.reserve(out.size() + static_cast<size_t>(total));

  for (const Size& size : sizes) append_number(out, size.value);
  append_number(out, shape.num_early_rings);
  append_number(out, num_tokens);
  append_number(out, static_cast<int64_t>(images.size()));
  for (const SavedPrefix::Image& image : images) {
    append_number(out, image.position);
    append_number(out, image.whole ? 1 : 0);
    append_number(out, image.draft_from);
  }
  append_bytes(out, ids.data(), num_tokens * id_bytes);
  for (int64_t i = 0; i < num_tokens / kBlockTokens; ++i)
    append_bytes(out, store.block(cache.block(*path, i)), block_bytes);
  for (const SavedPrefix::Image& image : images) {
    const SlotImage slot = *cache.image(*path, image.position);
    for_each_row(shape, image, shape.num_early_rings, [&](int32_t ring, int64_t position) {
      append_bytes(out, slot.window_row(ring, position), shape.window_record());
    });
  }
  return num_tokens;
}

Result<int64_t> load_prefix(PrefixCache& cache, KvStore& store, const SavedPrefix& saved,
                            std::span<const int32_t> token_map) {
  const KvShape& shape = store.shape();
  HeldPath path(cache, saved.ids());
  const int64_t missing = saved.num_blocks() - path.num_blocks();
  const int64_t there = store.num_free_blocks() + cache.num_unused();
  if (missing > there) return no_room("more blocks", missing, there);
  TRY_ASSIGN(const std::vector<Made> images, take_images(cache, store, saved));

  cache.make_room(missing);
  const auto block_bytes = static_cast<size_t>(block_records_bytes(shape));
  for (int64_t i = path.num_blocks(); i < saved.num_blocks(); ++i) {
    const BlockId block = *store.take_block();
    std::memcpy(store.block(block), saved.block(i), block_bytes);
    cache.append(*path, saved.ids(), block);
  }
  for (const Made& made : images) {
    fill_image(cache.view(made.units), *made.saved, saved, shape, token_map);
    cache.add_image(*path, made.saved->position, made.units);
  }
  return saved.images().back().position;
}

}  // namespace stoker
