// Unwraps a Result in a function that returns one.
#pragma once

#include <utility>

#include "stoker/result.h"

#define STOKER_CONCAT_INNER(a, b) a##b
#define STOKER_CONCAT(a, b) STOKER_CONCAT_INNER(a, b)

/// TRY_ASSIGN(auto file, MappedFile::open(path)); declares or assigns the value, or returns the
/// error.
#define TRY_ASSIGN(target, expression) \
  TRY_ASSIGN_INNER(STOKER_CONCAT(try_result_, __LINE__), target, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): `target` may be a declaration, `result` is a name.
#define TRY_ASSIGN_INNER(result, target, expression)         \
  auto result = (expression);                                \
  if (!result.has_value()) return std::move(result).error(); \
  target = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
