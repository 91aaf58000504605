#include "grammar/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace stoker::grammar {
namespace {

// Characters of a plain token; 0 for any other.
size_t plain_chars(std::string_view bytes) {
  size_t chars = 0;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = decode_utf8(bytes, at);
    if (!point.valid) return 0;
    if (point.length == 1 && !is_plain_ascii(static_cast<uint8_t>(bytes[at]))) return 0;
    at += point.length;
    ++chars;
  }
  return chars <= Vocabulary::kMaxPlainChars ? chars : 0;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::span<const int32_t> never,
                       std::span<const int32_t> ends)
    : tokens_(std::move(tokens)), ends_(ends.begin(), ends.end()) {
  const auto is_outside = [this](int32_t id) {
    return id < 0 || static_cast<size_t>(id) >= tokens_.size();
  };
  std::sort(ends_.begin(), ends_.end());
  ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
  ends_.erase(std::remove_if(ends_.begin(), ends_.end(), is_outside), ends_.end());
  for (const int32_t id : never)
    if (!is_outside(id)) tokens_[static_cast<size_t>(id)].clear();
  for (const int32_t id : ends_) tokens_[static_cast<size_t>(id)].clear();

  plain_.resize((kMaxPlainChars + 1) * num_words());
  std::vector<std::pair<std::string_view, int32_t>> all;
  std::vector<std::pair<std::string_view, int32_t>> others;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].size() > kMaxTokenBytes) tokens_[i].clear();
    if (tokens_[i].empty()) continue;
    all.emplace_back(tokens_[i], static_cast<int32_t>(i));
    const size_t chars = plain_chars(tokens_[i]);
    if (chars == 0) others.push_back(all.back());
    for (size_t bound = chars; chars > 0 && bound <= kMaxPlainChars; ++bound)
      plain_[bound * num_words() + i / 64] |= uint64_t{1} << (i % 64);
  }
  all_ = Trie(std::move(all));
  others_ = Trie(std::move(others));
}

bool Vocabulary::is_end(int32_t id) const {
  return std::binary_search(ends_.begin(), ends_.end(), id);
}

}  // namespace stoker::grammar
