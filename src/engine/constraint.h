// What the answer of a sequence may be: its tokens followed through a grammar, and the mask of
// those that may come next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/program.h"
#include "stoker/result.h"

namespace stoker::engine {

/// A grammar, and from where on it holds. A plain value; copies share the program.
struct ConstraintPlan {
  std::shared_ptr<const grammar::Program> program;
  std::optional<int32_t> starts_after = {};  ///< free until this token was chosen, as reasoning is
  /// What holds until then, beside that token; null: nothing does.
  std::shared_ptr<const grammar::Program> before = {};
};

/// One owner.
class Constraint {
 public:
  explicit Constraint(const ConstraintPlan& plan);

  /// The ids that may come next, as grammar::Matcher::fill has them; empty: all may. Valid until
  /// the next call. Error: kInvalidArgument where the grammar is too ambiguous to be followed,
  /// which depends on the ids alone.
  Result<std::span<const uint64_t>> mask();

  /// That token comes next. Errors: kInvalidArgument as mask(), and for a token that may not come.
  Result<void> accept(int32_t token);

  /// Takes back the last tokens, at most grammar::Matcher::kMaxRollback.
  void roll_back(size_t num_tokens);

 private:
  const std::optional<int32_t> starts_after_;
  std::optional<grammar::Matcher> before_;
  grammar::Matcher matcher_;
  bool has_started_;
  std::vector<uint64_t> mask_;
};

}  // namespace stoker::engine
