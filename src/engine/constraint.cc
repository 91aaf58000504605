#include "engine/constraint.h"

#include <algorithm>

namespace stoker::engine {

Constraint::Constraint(const ConstraintPlan& plan)
    : starts_after_(plan.starts_after),
      matcher_(plan.program),
      has_started_(!plan.starts_after),
      mask_(plan.program->vocabulary().num_words()) {}

std::span<const uint64_t> Constraint::mask() {
  if (!has_started_) return {};
  matcher_.fill(mask_);
  return mask_;
}

bool Constraint::accept(int32_t token) {
  if (has_started_) return matcher_.accept(token);
  has_started_ = token == starts_after_;
  return true;
}

// Of tokens before the start only the one that is the start means something.
void Constraint::roll_back(size_t num_tokens) {
  if (!has_started_) return;
  const size_t inside = std::min(num_tokens, matcher_.num_tokens());
  matcher_.rollback(inside);
  if (num_tokens > inside) has_started_ = !starts_after_;
}

}  // namespace stoker::engine
