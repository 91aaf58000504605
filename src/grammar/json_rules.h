// The pieces of JSON as expressions, with one rule for white space and one spelling of what comes
// between values. The schema's and the free value's grammars are made of these.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "grammar/grammar.h"

namespace stoker::grammar {

/// Adds to a builder, which outlives it. Not thread-safe, as any builder.
class JsonRules {
 public:
  /// any_whitespace: behind `{` `[` `,` `:` and before `}` `]` may stand nothing, one blank, or a
  /// line feed with up to 64 blanks and tabs. Else: `, ` and `: ` and nothing more.
  JsonRules(GrammarBuilder& builder, bool any_whitespace)
      : builder_(builder), any_whitespace_(any_whitespace) {}

  NodeId open(char bracket);   ///< `{` or `[` and what may follow
  NodeId close(char bracket);  ///< what may stand before, and `}` or `]`
  NodeId comma();
  NodeId colon();

  NodeId string();  ///< any, with its quotes
  /// Of min .. max code points, an escape being one.
  NodeId string_of_length(uint32_t min, uint32_t max);
  NodeId integer();
  NodeId number();  ///< with at most two digits of exponent
  NodeId boolean();
  NodeId value();   ///< any
  NodeId object();  ///< any
  NodeId array();   ///< any
  /// That value: its numbers as they are spelled, its members in their order.
  NodeId constant(const Json& value);

  /// `open` items `close`, min to max of them with commas between.
  NodeId list(char open_bracket, NodeId item, uint32_t min, uint32_t max);

 private:
  NodeId space();
  NodeId character();

  GrammarBuilder& builder_;
  bool any_whitespace_;
  std::optional<NodeId> space_;
  std::optional<NodeId> character_;
  std::optional<NodeId> string_rest_;
  std::optional<RuleId> value_;
  std::optional<NodeId> object_;
  std::optional<NodeId> array_;
  std::map<std::pair<uint32_t, uint32_t>, NodeId> lengths_;
};

}  // namespace stoker::grammar
