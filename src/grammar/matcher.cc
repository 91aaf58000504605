#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace stoker::grammar {

Matcher::Matcher(std::shared_ptr<const Program> program)
    : program_(std::move(program)), chart_(program_->automaton()) {
  chart_.reset(program_->automaton().start());
}

void Matcher::fill(std::span<uint64_t> mask) {
  const Vocabulary& vocabulary = program_->vocabulary();
  CHECK(mask.size() >= vocabulary.num_words(), "a mask has a bit for each id");
  std::fill(mask.begin(), mask.end(), 0);
  const std::span<uint64_t> row = mask.first(vocabulary.num_words());
  if (!ended_) {
    TokenMask spare;
    for (const Chart::Item& item : chart_.items())
      add_to(program_->mask(item.state, spare), vocabulary, row);
    add_exits(row);
  }
  if (!can_end()) return;
  for (const int32_t id : vocabulary.ends())
    row[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
}

// Tokens that go on behind the end of the rule that they begin in: from where its caller goes on.
void Matcher::add_exits(std::span<uint64_t> mask) {
  const Vocabulary& vocabulary = program_->vocabulary();
  TokenWalk walk(vocabulary, chart_);
  const size_t position = chart_.position();
  // By number: the walk adds items behind these, and takes them away again.
  for (size_t i = 0; i < chart_.items().size(); ++i) {
    const Chart::Item item = chart_.items()[i];
    if (item.frame == Chart::kRoot) continue;
    TokenMask spare;
    const TokenMask& state_mask = program_->mask(item.state, spare);
    if (state_mask.exits.empty() || !chart_.push_returns(item.frame)) continue;
    const Trie& trie = state_mask.over_others ? vocabulary.others() : vocabulary.all();
    for (const uint32_t exit : state_mask.exits) walk.add_below(trie, exit, mask);
    chart_.cut(position);
  }
}

bool Matcher::accept(int32_t id) {
  const Vocabulary& vocabulary = program_->vocabulary();
  failed_ = false;
  if (ended_ || id < 0 || static_cast<size_t>(id) >= vocabulary.size()) return false;
  if (vocabulary.is_end(id)) {
    if (!can_end()) return false;
    ended_ = true;
  } else {
    const size_t position = chart_.position();
    const auto bytes = vocabulary.bytes(id);
    if (bytes.empty()) return false;
    for (const char byte : bytes) {
      if (chart_.push(static_cast<uint8_t>(byte))) continue;
      failed_ = chart_.overflowed();
      chart_.cut(position);
      return false;
    }
  }
  tokens_.push_back(chart_.position());
  if (tokens_.size() < 2 * kMaxRollback + 1) return true;
  // Now and then, so that it costs little.
  chart_.forget(tokens_[kMaxRollback - 1]);
  tokens_.erase(tokens_.begin(), tokens_.begin() + kMaxRollback);
  num_forgotten_ += kMaxRollback;
  return true;
}

void Matcher::rollback(size_t num_tokens) {
  CHECK(num_tokens <= std::min(kMaxRollback, tokens_.size()), "these tokens can be taken back");
  failed_ = false;
  if (num_tokens == 0) return;
  const size_t kept = tokens_.size() - num_tokens;
  // Without any, the text is empty, or ends with the last token that was forgotten.
  chart_.cut(kept > 0 ? tokens_[kept - 1] : chart_.first_position());
  tokens_.resize(kept);
  ended_ = false;
}

}  // namespace stoker::grammar
