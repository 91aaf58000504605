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
      mask_(plan.program->vocabulary().num_words()) {}

Result<std::span<const uint64_t>> Constraint::mask() {
  if (!has_started_) return std::span<const uint64_t>();
  if (!matcher_.fill(mask_)) return too_ambiguous();
  return std::span<const uint64_t>(mask_);
}

Result<void> Constraint::accept(int32_t token) {
  if (!has_started_) {
    has_started_ = token == starts_after_;
    return {};
  }
  if (matcher_.accept(token)) return {};
  if (matcher_.failed()) return too_ambiguous();
  return Error{ErrorCode::kInvalidArgument,
               "structured output: token " + std::to_string(token) + " may not come here", ""};
}

// Of tokens before the start only the one that is the start means something.
void Constraint::roll_back(size_t num_tokens) {
  if (!has_started_) return;
  const size_t inside = std::min(num_tokens, matcher_.num_tokens());
  matcher_.rollback(inside);
  if (num_tokens > inside) has_started_ = !starts_after_;
}

}  // namespace stoker::engine
