// Grammars of JSON documents: any object, or those that a JSON schema describes. What is supported,
// refused, and how documents are spelled is in docs/structured.md; nothing of a schema is ignored
// but annotations.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "grammar/grammar.h"
#include "stoker/result.h"

namespace stoker::grammar {

struct SchemaOptions {
  bool any_whitespace = true;  ///< JsonRules
  /// An object with `properties` and without `additionalProperties` has no others.
  bool disable_additional_properties = false;
};

/// The documents that are valid, in the spelling and order that the grammar has. Errors:
/// kInvalidArgument for what is wrong in the schema, allows nothing, or is too large; kUnsupported
/// for what is right and not held. The message names the JSON pointer.
Result<Grammar> from_json_schema(const Json& schema, const SchemaOptions& options = {});

/// Any JSON object. Error: none today.
Result<Grammar> from_json_object(const SchemaOptions& options = {});

/// The parameters of a tool as a call writes them (calls.h).
struct ParameterStyle {
  std::string begin;         ///< before the name
  std::string text_begin;    ///< between the name and a string, which is written as it is
  std::string json_begin;    ///< between the name and any other value, in JSON
  std::string end;           ///< behind the value
  std::string text_without;  ///< what a string must not contain
  std::string separator;     ///< between parameters
  std::string close;         ///< behind all of them
};

/// Adds the members of an object schema, each in that style, in the order of documents. `pointer`
/// is where the schema stands, for messages. A schema that is no object's is kInvalidArgument.
Result<NodeId> add_parameters(GrammarBuilder& builder, const Json& schema,
                              const SchemaOptions& options, const ParameterStyle& style);

}  // namespace stoker::grammar
