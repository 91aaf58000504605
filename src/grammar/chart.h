// Where a text stands in an automaton, byte by byte: after each byte the set of states that are
// possible, each in a frame that says who called its rule. Calls of a rule at the same place share
// a frame, so that a grammar with many readings of one text costs a sum over them and not a
// product (J. Earley, 1970). Positions are kept, so that going back is cutting off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "grammar/automaton.h"

namespace stoker::grammar {

/// One owner at a time; borrows the automaton.
class Chart {
 public:
  using FrameId = uint32_t;
  /// The frame of the rule that the chart began in. Nothing is known behind it.
  static constexpr FrameId kRoot = 0;
  /// States at a position at most; a byte that leads to more counts as not allowed.
  static constexpr size_t kMaxItems = 128;

  struct Item {
    StateId state = 0;
    FrameId frame = 0;
  };

  explicit Chart(const Automaton& automaton) : automaton_(&automaton) {}

  /// Begins anew, at position 0, in a state.
  void reset(StateId state);
  /// One byte further. False: it is not allowed here, and nothing has changed.
  bool push(uint8_t byte);
  /// Back to position `position`, at most the present one.
  void cut(size_t position);
  /// Forgets positions before `position` except where calls return to: they cannot be cut to any
  /// more. Their numbers stay.
  void forget(size_t position);

  size_t position() const { return first_position_ + positions_.size() - 1; }
  size_t first_position() const { return first_position_; }  ///< that is kept
  /// The states possible here: those behind the last byte and those that rules returned to. What
  /// their calls can begin with is in Automaton::first.
  std::span<const Item> items() const {
    const size_t begin = positions_.size() > 1 ? positions_[positions_.size() - 2].items : 0;
    return std::span(items_).subspan(begin);
  }
  /// Whether the rule that the chart began in may end here.
  bool ends() const { return positions_.back().ends; }
  /// States looked at since the chart was made: what its work costs, in units that do not depend on
  /// the machine.
  size_t work() const { return work_; }
  /// Calls found(state, frame) for each place that the rule of a frame returns to.
  template <class Found>
  void for_each_return(FrameId frame, const Found& found) const {
    for (uint32_t at = frames_[frame].last_return; at != 0; at = returns_[at - 1].next)
      found(returns_[at - 1].to, returns_[at - 1].frame);
  }
  /// Whether the last push failed because of kMaxItems.
  bool overflowed() const { return overflowed_; }

 private:
  struct Frame {
    StateId start = 0;
    uint32_t last_return = 0;  // in returns_, one more; 0: none
  };
  struct Return {
    StateId to = 0;
    FrameId frame = 0;
    uint32_t next = 0;  // as Frame::last_return
  };
  // Sizes at the end of a position.
  struct Position {
    uint32_t items = 0;
    uint32_t frames = 0;
    uint32_t returns = 0;
    bool ends = false;
  };

  bool calls_with(StateId state, uint8_t byte) const;
  bool step_items(uint8_t byte);
  void call(const Automaton::Call& call, FrameId caller, size_t first_frame);
  bool add_item(StateId state, FrameId frame, size_t begin);
  bool close(size_t begin);
  bool finish_position(size_t begin);

  const Automaton* automaton_;
  std::vector<Position> positions_;
  std::vector<Item> items_;
  std::vector<Frame> frames_;
  std::vector<Return> returns_;
  std::vector<Item> active_;  // of a push: the states that may take the byte
  size_t first_position_ = 0;
  bool ends_ = false;  // of the position being made
  bool overflowed_ = false;
  size_t work_ = 0;
};

}  // namespace stoker::grammar
