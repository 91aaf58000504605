#include "engine/constraint.h"

#include <algorithm>
#include <string>

namespace stoker::engine {
namespace {

Error too_ambiguous() {
  return {ErrorCode::kInvalidArgument,
          "structured output: the grammar can be read in too many ways at a time", ""};
}

}  // namespace

Constraint::Constraint(const ConstraintPlan& plan)
    : starts_after_(plan.starts_after),
      matcher_(plan.program),
      has_started_(!plan.starts_after),
      mask_(plan.program->vocabulary().num_words()) {
  if (plan.before && plan.starts_after) before_.emplace(plan.before);
}

Result<std::span<const uint64_t>> Constraint::mask() {
  if (!has_started_ && !before_) return std::span<const uint64_t>();
  if (!(has_started_ ? matcher_ : *before_).fill(mask_)) return too_ambiguous();
  if (!has_started_) {
    const auto start = static_cast<size_t>(*starts_after_);
    mask_[start / 64] |= uint64_t{1} << (start % 64);
  }
  return std::span<const uint64_t>(mask_);
}

Result<void> Constraint::accept(int32_t token) {
  if (!has_started_ && (token == starts_after_ || !before_)) {
    has_started_ = token == starts_after_;
    return {};
  }
  grammar::Matcher& matcher = has_started_ ? matcher_ : *before_;
  if (matcher.accept(token)) return {};
  if (matcher.failed()) return too_ambiguous();
  return Error{ErrorCode::kInvalidArgument,
               "structured output: token " + std::to_string(token) + " may not come here", ""};
}

// Of tokens before the start the one that is the start means something, and those that something
// holds for.
void Constraint::roll_back(size_t num_tokens) {
  if (has_started_) {
    const size_t inside = std::min(num_tokens, matcher_.num_tokens());
    matcher_.rollback(inside);
    num_tokens -= inside;
    if (num_tokens == 0 || !starts_after_) return;
    has_started_ = false;
    --num_tokens;
  }
  if (before_) before_->rollback(num_tokens);
}

}  // namespace stoker::engine
