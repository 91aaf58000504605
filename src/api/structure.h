// Forms of answers (docs/structured.md) as grammars over a model's tokens, compiled where a request
// is submitted, and kept for the next one that asks for the same.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "api/loaded_model.h"
#include "api/resolve.h"
#include "engine/constraint.h"
#include "grammar/grammar.h"
#include "grammar/program.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

/// Safe from any thread; callers that compile different grammars do not wait for each other.
class Structures {
 public:
  /// Borrows the model.
  explicit Structures(const LoadedModel& model) : model_(model) {}

  /// Whether tools decide what the answer may be.
  static bool holds_calls(const Request& request, const EncodedPrompt& prompt);

  /// What a request's answer may be; none: anything. Errors: kInvalidArgument and kUnsupported,
  /// with the field, for a form that is wrong, allows nothing, is too large or not supported;
  /// kUnsupported without a tokenizer.
  Result<std::optional<engine::ConstraintPlan>> plan(const Request& request,
                                                     const EncodedPrompt& prompt);

 private:
  using Source = std::function<Result<grammar::Grammar>()>;
  struct Entry {
    std::string key;
    std::shared_ptr<const grammar::Program> program;
  };

  Result<std::shared_ptr<const grammar::Program>> program_of(const std::string& key,
                                                             const Source& source);
  std::shared_ptr<const grammar::Program> find(const std::string& key);
  void keep(const std::string& key, std::shared_ptr<const grammar::Program> program);
  std::shared_ptr<const grammar::Vocabulary> vocabulary();

  const LoadedModel& model_;
  std::mutex mutex_;                                       // guards what follows
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // once it is needed
  std::list<Entry> entries_;                               // the last one used comes first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace stoker
