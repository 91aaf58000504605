#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace stoker::grammar {

Matcher::Matcher(std::shared_ptr<const Program> program)
    : program_(std::move(program)), chart_(program_->automaton()) {
  chart_.reset(program_->automaton().start());
}

bool Matcher::fill(std::span<uint64_t> mask) {
  const Vocabulary& vocabulary = program_->vocabulary();
  CHECK(mask.size() >= vocabulary.num_words(), "a mask has a bit for each id");
  std::fill(mask.begin(), mask.end(), 0);
  const std::span<uint64_t> row = mask.first(vocabulary.num_words());
  exits_.clear();
  spares_.clear();
  work_ = 0;
  bool fits = true;
  for (const Chart::Item& item : chart_.items()) {
    if (ended_ || !fits) break;
    const TokenMask& found = with_spare(
        [&](TokenMask& spare) -> const TokenMask& { return program_->mask(item.state, spare); });
    fits = add(found, item.frame, row);
  }
  // Tokens that go on behind the end of the rule that they begin in, from where its callers go on.
  for (size_t i = 0; i < exits_.size() && fits; ++i) {
    const Exit exit = exits_[i];
    chart_.for_each_return(exit.frame, [&](StateId after, Chart::FrameId frame) {
      if (!fits) return;
      const TokenMask& found = with_spare([&](TokenMask& spare) -> const TokenMask& {
        return program_->extension(*exit.from, after, spare);
      });
      fits = add(found, frame, row);
    });
  }
  if (can_end()) {
    for (const int32_t id : vocabulary.ends())
      row[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  }
  return fits;
}

// What make(spare) returns; the spare stays if that is it.
template <class Make>
const TokenMask& Matcher::with_spare(const Make& make) {
  TokenMask& spare = spares_.emplace_back();
  const TokenMask& made = make(spare);
  if (&made != &spare) spares_.pop_back();
  return made;
}

// False: too much work.
bool Matcher::add(const TokenMask& found, Chart::FrameId frame, std::span<uint64_t> row) {
  work_ += found.work;
  if (!found.is_complete || work_ > kMaxWork) return false;
  add_to(found, program_->vocabulary(), row);
  if (found.exits == TokenMask::kNoExits || frame == Chart::kRoot) return true;
  // Rules that begin with themselves return to their own frame.
  const auto is_same = [&](const Exit& other) {
    return other.frame == frame && other.from->exits == found.exits &&
           (found.exits != TokenMask::kOwnExits || other.from->own_exits == found.own_exits);
  };
  work_ += exits_.size();
  if (std::none_of(exits_.begin(), exits_.end(), is_same)) exits_.push_back({&found, frame});
  return true;
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
