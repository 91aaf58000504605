#include "grammar/calls.h"

#include <utility>
#include <vector>

#include "base/try.h"
#include "grammar/regular.h"

namespace stoker::grammar {
namespace {

constexpr const char* kBegin = "<｜DSML｜ calls>\n";
constexpr const char* kEnd = "</｜DSML｜ calls>";
constexpr const char* kMarkers[] = {"<｜DSML｜", "<|DSML|"};

ParameterStyle call_style() {
  return {.begin = "<｜DSML｜ parameter name=\"",
          .text_begin = "\" string=\"true\">",
          .json_begin = "\" string=\"false\">",
          .end = "</｜DSML｜ parameter>",
          .text_without = "</｜DSML｜",
          .separator = "\n",
          .close = "\n</｜DSML｜ invoke>\n"};
}

// Of a few states: no limit is met.
Result<Regular> free_text() {
  return intersection(regular_text_without(kMarkers[0]), regular_text_without(kMarkers[1]));
}

Result<NodeId> add_invoke(GrammarBuilder& builder, const Tool& tool, const SchemaOptions& options,
                          const ParameterStyle& style) {
  if (tool.name.empty() || tool.name.find_first_of("\"\r\n") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "expected a name without quotes and line ends, found " + json_quote(tool.name),
                 {}};
  }
  static const Json any_parameters = Json::object();
  const Json& schema = tool.parameters != nullptr ? *tool.parameters : any_parameters;
  TRY_ASSIGN(const NodeId parameters, add_parameters(builder, schema, options, style));
  const NodeId begin = builder.literal("<｜DSML｜ invoke name=\"" + tool.name + "\">\n");
  return builder.sequence({begin, parameters});
}

}  // namespace

Result<Grammar> from_calls(std::span<const Tool> tools, const CallOptions& options) {
  if (tools.empty()) return Error{ErrorCode::kInvalidArgument, "tools: expected at least one", {}};
  GrammarBuilder builder;
  const ParameterStyle style = call_style();
  std::vector<NodeId> invokes;
  for (size_t i = 0; i < tools.size(); ++i) {
    auto invoke = add_invoke(builder, tools[i], options.schema, style)
                      .with("tools[" + std::to_string(i) + "]");
    if (!invoke) return std::move(invoke).error();
    invokes.push_back(*invoke);
  }
  const NodeId invoke = builder.choice(invokes);
  const NodeId rest = builder.sequence(
      {options.exactly_one ? invoke : builder.repeat(invoke, 1), builder.literal(kEnd)});
  NodeId root = rest;
  if (options.form != CallForm::kOpenedBlock)
    root = builder.sequence({builder.literal(kBegin), rest});
  if (options.form == CallForm::kBlock) root = builder.sequence({builder.literal("\n\n"), root});
  if (options.form == CallForm::kTriggered)
    root = builder.sequence({builder.regular(*free_text()), builder.optional(root)});
  return std::move(builder).finish(root);
}

Result<Grammar> text_without_calls() {
  GrammarBuilder builder;
  const NodeId root = builder.regular(*free_text());
  return std::move(builder).finish(root);
}

}  // namespace stoker::grammar
