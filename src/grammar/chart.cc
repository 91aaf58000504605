#include "grammar/chart.h"

namespace stoker::grammar {
namespace {

constexpr size_t kItemsAUnit = 32;  // that add_item looks at in the time of a unit of work

}  // namespace

void Chart::reset(StateId state) {
  items_.assign(1, {state, kRoot});
  frames_.assign(1, {state, 0});
  returns_.clear();
  positions_.assign(1, {1, 1, 0, automaton_->accepts(state)});
  first_position_ = 0;
  overflowed_ = false;
}

void Chart::cut(size_t position) {
  if (position == this->position() && items_.size() == positions_.back().items) return;
  positions_.resize(position - first_position_ + 1);
  const Position& last = positions_.back();
  items_.resize(last.items);
  frames_.resize(last.frames);
  returns_.resize(last.returns);
}

void Chart::forget(size_t position) {
  const size_t num_gone = position - first_position_;
  if (num_gone == 0) return;
  const uint32_t items_gone = positions_[num_gone - 1].items;
  items_.erase(items_.begin(), items_.begin() + items_gone);
  positions_.erase(positions_.begin(), positions_.begin() + static_cast<std::ptrdiff_t>(num_gone));
  for (Position& kept : positions_) kept.items -= items_gone;
  first_position_ = position;
}

bool Chart::push(uint8_t byte) {
  const size_t begin = items_.size();
  overflowed_ = false;
  ++work_;
  const std::span<const Item> here = items();
  if (here.size() == 1) {
    // One reading, nothing called and no call ended: nearly all bytes.
    const Item item = here[0];
    if (!automaton_->first(item.state)[byte]) return false;
    const StateId next = automaton_->step(item.state, byte);
    const bool is_end = next != kDead && automaton_->accepts(next);
    if (next != kDead && (!is_end || item.frame == kRoot) && !calls_with(item.state, byte)) {
      items_.push_back({next, item.frame});
      Position position = positions_.back();
      ++position.items;
      position.ends = is_end;
      positions_.push_back(position);
      return true;
    }
  }
  ends_ = false;
  if (step_items(byte) && close(begin)) return finish_position(begin);
  overflowed_ = true;
  cut(position());
  return false;
}

// Whether a call of the state can begin with the byte.
bool Chart::calls_with(StateId state, uint8_t byte) const {
  for (const Automaton::Call& one : automaton_->calls(state))
    if (automaton_->first(one.start)[byte]) return true;
  return false;
}

// The items behind the byte, before any return. False: too many.
bool Chart::step_items(uint8_t byte) {
  const size_t begin = items_.size();
  const size_t first_frame = frames_.size();
  active_.clear();
  for (const Item& item : items())
    if (automaton_->first(item.state)[byte]) active_.push_back(item);
  for (size_t i = 0; i < active_.size(); ++i) {
    const Item item = active_[i];
    work_ += 1 + automaton_->calls(item.state).size();
    const StateId next = automaton_->step(item.state, byte);
    if (next != kDead && !add_item(next, item.frame, begin)) return false;
    for (const Automaton::Call& one : automaton_->calls(item.state))
      if (automaton_->first(one.start)[byte]) call(one, item.frame, first_frame);
    if (active_.size() > kMaxItems) return false;
  }
  return true;
}

// Calls at the same place share the frame of their rule; `first_frame` is the first made here.
void Chart::call(const Automaton::Call& call, FrameId caller, size_t first_frame) {
  size_t frame = first_frame;
  while (frame < frames_.size() && frames_[frame].start != call.start) ++frame;
  if (frame == frames_.size()) {
    frames_.push_back({call.start, 0});
    active_.push_back({call.start, static_cast<FrameId>(frame)});
  }
  returns_.push_back({call.to, caller, frames_[frame].last_return});
  frames_[frame].last_return = static_cast<uint32_t>(returns_.size());
}

bool Chart::add_item(StateId state, FrameId frame, size_t begin) {
  for (size_t i = begin; i < items_.size(); ++i)
    if (items_[i].state == state && items_[i].frame == frame) return true;
  if (items_.size() - begin >= kMaxItems) return false;
  items_.push_back({state, frame});
  return true;
}

// Adds where the rules that may end return to. What is called without a byte is in the automaton
// already, so a frame that ends here was made at an earlier position, and has all its returns.
bool Chart::close(size_t begin) {
  for (size_t i = begin; i < items_.size(); ++i) {
    const Item item = items_[i];
    ++work_;
    if (!automaton_->accepts(item.state)) continue;
    ends_ = ends_ || item.frame == kRoot;
    for (uint32_t at = frames_[item.frame].last_return; at != 0; at = returns_[at - 1].next) {
      work_ += 1 + (items_.size() - begin) / kItemsAUnit;
      if (!add_item(returns_[at - 1].to, returns_[at - 1].frame, begin)) return false;
    }
  }
  return true;
}

bool Chart::finish_position(size_t begin) {
  if (items_.size() == begin) {
    cut(position());
    return false;
  }
  positions_.push_back({static_cast<uint32_t>(items_.size()), static_cast<uint32_t>(frames_.size()),
                        static_cast<uint32_t>(returns_.size()), ends_});
  return true;
}

}  // namespace stoker::grammar
