#include "bench/made_records.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/check.h"
#include "tensor/formats.h"

namespace stoker::bench {
namespace {

constexpr int64_t kRecords = 1024;  // different ones of each kind

// Random records of one kind, taken in turn.
class Records {
 public:
  Records(int64_t dim, int64_t bytes, void (*encode)(const float*, int64_t, uint8_t*),
          std::mt19937& random)
      : bytes_(bytes), data_(static_cast<size_t>(kRecords * bytes)) {
    std::normal_distribution<float> normal;
    std::vector<float> vector(static_cast<size_t>(dim));
    for (int64_t i = 0; i < kRecords; ++i) {
      std::ranges::generate(vector, [&] { return normal(random); });
      encode(vector.data(), dim, data_.data() + i * bytes);
    }
  }

  void put(int64_t number, uint8_t* to) const {
    // A stride that meets all of them, and not in the order of the blocks.
    std::copy_n(data_.data() + number * 389 % kRecords * bytes_, bytes_, to);
  }

 private:
  const int64_t bytes_;
  std::vector<uint8_t> data_;
};

}  // namespace

void make_context(SequenceState& state, const KvShape& shape, int64_t tokens) {
  CHECK(state.reserve(tokens), "the store was made for it");
  std::mt19937 random(1);
  const Records latents(shape.head_dim, shape.latent_record(), encode_latent, random);
  const Records keys(shape.index_head_dim, shape.index_record(), encode_index, random);
  const Records rows(shape.head_dim, shape.window_record(), encode_window, random);
  for (size_t source = 0; source < shape.sources.size(); ++source) {
    const int64_t ratio = shape.sources[source].ratio;
    for (int64_t entry = state.length() / ratio; entry < tokens / ratio; ++entry) {
      latents.put(entry, state.latent(source, entry));
      keys.put(entry, state.index_key(source, entry));
    }
  }
  for (int32_t ring = 0; ring < shape.num_rings; ++ring) {
    for (int64_t position = tokens - shape.window; position < tokens; ++position)
      rows.put(position + ring, state.window_row(ring, position));
  }
  for (int32_t i = 0; i < shape.history; ++i) state.set_history(tokens - shape.history + i, i);
  state.advance(tokens - state.length());
}

}  // namespace stoker::bench
