#include "api/structure.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/try.h"
#include "grammar/calls.h"
#include "grammar/ebnf.h"
#include "grammar/json_schema.h"
#include "grammar/regex.h"

namespace stoker {
namespace {

constexpr size_t kMaxPrograms = 64;

grammar::SchemaOptions schema_options(const Structure& structure) {
  return {structure.any_whitespace, structure.disable_additional_properties};
}

Result<grammar::Grammar> grammar_of(const Structure& structure) {
  switch (structure.kind) {
    case Structure::Kind::kJsonObject:
      return grammar::from_json_object(schema_options(structure));
    case Structure::Kind::kJsonSchema: {
      TRY_ASSIGN(const Json schema, Json::parse(structure.text));
      return grammar::from_json_schema(schema, schema_options(structure));
    }
    case Structure::Kind::kRegex:
      return grammar::from_regex(structure.text);
    case Structure::Kind::kChoice:
      return grammar::from_choice(structure.choices);
    case Structure::Kind::kGrammar:
    case Structure::Kind::kNone:
      break;
  }
  return grammar::from_ebnf(structure.text);
}

// Calls may come as the model likes, and some of the tools hold theirs to their schemas.
bool has_strict_calls(const Structure& structure, const EncodedPrompt& prompt) {
  return structure.kind == Structure::Kind::kNone && !prompt.must_call &&
         std::ranges::any_of(prompt.tools, &chat::Tool::strict);
}

// only_strict: parameters of tools that are not strict are free.
Result<grammar::Grammar> calls_grammar(const EncodedPrompt& prompt, bool only_strict = false) {
  std::vector<grammar::Tool> tools;
  for (const chat::Tool& tool : prompt.tools) {
    const bool is_held = tool.parameters && (tool.strict || !only_strict);
    tools.push_back({tool.name, is_held ? &*tool.parameters : nullptr});
  }
  grammar::CallOptions options;
  options.form = prompt.reply.start == ReplyStart::kCalls ? grammar::CallForm::kOpenedBlock
                 : only_strict                            ? grammar::CallForm::kTriggered
                                                          : grammar::CallForm::kBlock;
  options.exactly_one = prompt.reply.one_call;
  return grammar::from_calls(tools, options);
}

// A call that must come, or the form that is asked for, beside which calls may come.
Result<grammar::Grammar> grammar_of(const Structure& structure, const EncodedPrompt& prompt) {
  if (prompt.must_call) return calls_grammar(prompt);
  if (has_strict_calls(structure, prompt)) return calls_grammar(prompt, /*only_strict=*/true);
  TRY_ASSIGN(grammar::Grammar form, grammar_of(structure));
  if (begins_with_reasoning(prompt.reply.start)) {
    TRY_ASSIGN(form, grammar::after_line_feeds(form));
  }
  if (prompt.tools.empty()) return form;
  TRY_ASSIGN(const grammar::Grammar calls, calls_grammar(prompt));
  return grammar::either(form, calls);
}

void append_part(std::string& key, std::string_view part) {
  key += std::to_string(part.size()) + ":";
  key += part;
}

// Of all that the grammar is made of.
std::string key_of(const Structure& structure, const EncodedPrompt& prompt) {
  std::string key;
  append_part(key, std::to_string(static_cast<int>(structure.kind)));
  append_part(key, structure.any_whitespace ? "w" : "");
  append_part(key, structure.disable_additional_properties ? "p" : "");
  append_part(key, structure.text);
  for (const std::string& choice : structure.choices) append_part(key, choice);
  append_part(key, std::to_string(static_cast<int>(prompt.reply.start)));
  append_part(key, prompt.reply.one_call ? "1" : "");
  append_part(key, prompt.must_call ? "!" : "");
  for (const chat::Tool& tool : prompt.tools) {
    append_part(key, tool.name);
    append_part(key, tool.strict ? "s" : "");
    append_part(key, tool.parameters ? tool.parameters->dump() : "");
  }
  return key;
}

const char* field_of(const Structure& structure, const EncodedPrompt& prompt) {
  if (prompt.must_call) return "tool_choice";
  if (has_strict_calls(structure, prompt)) return "tools";
  return structure.is_shown ? "response_format" : "structured_outputs";
}

}  // namespace

bool Structures::holds_calls(const Request& request, const EncodedPrompt& prompt) {
  if (prompt.tools.empty()) return false;
  return prompt.must_call || request.structure.kind != Structure::Kind::kNone ||
         has_strict_calls(request.structure, prompt);
}

Result<std::optional<engine::ConstraintPlan>> Structures::plan(const Request& request,
                                                               const EncodedPrompt& prompt) {
  const Structure& structure = request.structure;
  std::optional<engine::ConstraintPlan> plan;
  const bool is_strict = has_strict_calls(structure, prompt);
  if (structure.kind == Structure::Kind::kNone && !prompt.must_call && !is_strict) return plan;
  const std::string field = field_of(structure, prompt);
  if (model_.tokenizer() == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 field + ": the model has no tokenizer.json, so its output is no text", field};
  }
  if (request.ignore_eos)
    return invalid("ignore_eos", "expected false with " + field + ", found true");
  auto program =
      program_of(key_of(structure, prompt), [&] { return grammar_of(structure, prompt); });
  if (!program) return Error{program.error().code, field + ": " + program.error().message, field};
  plan.emplace();
  plan->program = *std::move(program);
  if (!begins_with_reasoning(prompt.reply.start)) return plan;
  plan->starts_after = model_.encoder()->end_of_thinking();
  if (!is_strict) return plan;
  // A call that begins in the reasoning would be one that the grammar does not see.
  TRY_ASSIGN(plan->before, program_of("reasoning", grammar::text_without_calls));
  return plan;
}

Result<std::shared_ptr<const grammar::Program>> Structures::program_of(const std::string& key,
                                                                       const Source& source) {
  if (auto known = find(key)) return known;
  TRY_ASSIGN(const grammar::Grammar grammar, source());
  TRY_ASSIGN(auto program, grammar::Program::compile(grammar, vocabulary()));
  keep(key, program);
  return program;
}

std::shared_ptr<const grammar::Program> Structures::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->program;
}

void Structures::keep(const std::string& key, std::shared_ptr<const grammar::Program> program) {
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;  // another thread had the same to do
  entries_.push_front({key, std::move(program)});
  by_key_[key] = entries_.begin();
  if (entries_.size() <= kMaxPrograms) return;
  by_key_.erase(entries_.back().key);
  entries_.pop_back();
}

// Tokens that have no place in an answer, or mark its parts, never come.
std::shared_ptr<const grammar::Vocabulary> Structures::vocabulary() {
  const std::lock_guard lock(mutex_);
  if (vocabulary_ != nullptr) return vocabulary_;
  const Tokenizer& tokenizer = *model_.tokenizer();
  const chat::Encoder* encoder = model_.encoder();
  std::vector<std::string> tokens(static_cast<size_t>(model_.info().vocab_size));
  std::vector<int32_t> never;
  for (int32_t id = 0; id < model_.info().vocab_size; ++id) {
    if (id < tokenizer.size()) tokens[static_cast<size_t>(id)] = tokenizer.bytes(id);
    const bool is_mark =
        encoder != nullptr && (id == encoder->begin_of_thinking() ||
                               id == encoder->end_of_thinking() || encoder->is_hidden(id));
    const bool is_special = id < tokenizer.size() && tokenizer.is_special(id);
    if (is_mark || is_special) never.push_back(id);
  }
  vocabulary_ =
      std::make_shared<const grammar::Vocabulary>(std::move(tokens), never, model_.stop_ids());
  return vocabulary_;
}

}  // namespace stoker
