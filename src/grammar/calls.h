// The grammar of a block of tool calls as the chat format of this model family writes it: names
// from a list of tools, parameters from their schemas. Strings stand as they are, all else in JSON.
//
//     <｜DSML｜ calls>
//     <｜DSML｜ invoke name="NAME">
//     <｜DSML｜ parameter name="KEY" string="true">TEXT</｜DSML｜ parameter>
//     </｜DSML｜ invoke>
//     </｜DSML｜ calls>
#pragma once

#include <span>
#include <string>

#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/json_schema.h"
#include "stoker/result.h"

namespace stoker::grammar {

struct Tool {
  std::string name;
  const Json* parameters = nullptr;  ///< a schema; null: any parameters
};

enum class CallForm {
  kBlock,        ///< two line feeds and the block
  kOpenedBlock,  ///< the block behind its first line, which the prompt has already
  /// Any text without "<｜DSML｜", nor the same with ASCII bars, and then perhaps a block without
  /// the line feeds.
  kTriggered,
};

struct CallOptions {
  CallForm form = CallForm::kBlock;
  bool exactly_one = false;  ///< invoke; else one or more
  SchemaOptions schema = {};
};

/// Errors: kInvalidArgument for no tools, or a name with `"` or a line end in it; those of
/// from_json_schema, behind "tools[i]: ". A string holds no "</｜DSML｜".
Result<Grammar> from_calls(std::span<const Tool> tools, const CallOptions& options = {});

/// Any text in which no block begins. Cannot fail but for a bug.
Result<Grammar> text_without_calls();

}  // namespace stoker::grammar
