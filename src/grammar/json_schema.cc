#include "grammar/json_schema.h"

#include <utility>

#include "base/try.h"
#include "grammar/json_rules.h"
#include "grammar/nfa.h"
#include "grammar/schema_compiler.h"

namespace stoker::grammar {

Result<Grammar> from_json_schema(const Json& schema, const SchemaOptions& options) {
  GrammarBuilder builder;
  SchemaCompiler compiler(builder, schema, options);
  TRY_ASSIGN(const NodeId root, compiler.value({&schema, "#"}));
  const std::string nothing_at = compiler.nothing_at();
  TRY_ASSIGN(Grammar grammar, std::move(builder).finish(root));
  // What allows nothing may be a property that can be left out, or a schema that contains itself.
  if (auto nfa = build_nfa(grammar, {}); !nfa) {
    if (nfa.error().message != kNothingAllowed) return std::move(nfa).error();
    return schema_error(ErrorCode::kInvalidArgument, nothing_at.empty() ? "#" : nothing_at,
                        "no value is valid");
  }
  return grammar;
}

Result<Grammar> from_json_object(const SchemaOptions& options) {
  GrammarBuilder builder;
  const NodeId root = JsonRules(builder, options.any_whitespace).object();
  return std::move(builder).finish(root);
}

Result<NodeId> add_parameters(GrammarBuilder& builder, const Json& schema,
                              const SchemaOptions& options, const ParameterStyle& style) {
  SchemaCompiler compiler(builder, schema, options);
  return compiler.parameters({&schema, "#"}, style);
}

}  // namespace stoker::grammar
