#include "engine/repetition.h"

namespace stoker::engine {

RepetitionWatch::RepetitionWatch(const RepetitionLimit& limit)
    : limit_(limit), num_equal_(static_cast<size_t>(limit.max_size - limit.min_size + 1)) {}

// A pattern is there n times where the n - 1 last of them equal those before them.
bool RepetitionWatch::accept(std::span<const int32_t> answer) {
  bool is_repeated = false;
  const int32_t token = answer.back();
  for (size_t i = 0; i < num_equal_.size(); ++i) {
    const size_t size = static_cast<size_t>(limit_.min_size) + i;
    if (size >= answer.size()) break;
    int32_t& equal = num_equal_[i];
    equal = answer[answer.size() - 1 - size] == token ? equal + 1 : 0;
    is_repeated |= equal >= static_cast<int64_t>(size) * (limit_.min_count - 1);
  }
  return is_repeated;
}

}  // namespace stoker::engine
