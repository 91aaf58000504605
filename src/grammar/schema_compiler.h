// Writes the rules of a schema's values. One rule for each place of the schema and each use of it,
// made from a list of work and not by recursion: a schema may refer to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_rules.h"
#include "grammar/json_schema.h"
#include "grammar/regular.h"
#include "grammar/schema_parts.h"
#include "grammar/schema_values.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// For one document and one builder, which outlive it.
class SchemaCompiler {
 public:
  SchemaCompiler(GrammarBuilder& builder, const Json& document, const SchemaOptions& options)
      : builder_(builder),
        options_(options),
        json_(builder, options.any_whitespace),
        reader_(document) {}

  /// A value of a schema. Errors: from_json_schema's.
  Result<NodeId> value(const Part& part);
  /// The members of an object schema as parameters.
  Result<NodeId> parameters(const Part& part, const ParameterStyle& style);

  /// Where a schema was found to allow nothing; empty if none was.
  const std::string& nothing_at() const { return nothing_at_; }

 private:
  enum class Use : uint8_t {
    kJson,       ///< any value, in JSON
    kText,       ///< strings, as they are
    kOtherJson,  ///< values that are no strings, in JSON
  };
  struct Job {
    RuleId rule = 0;
    std::vector<Part> parts;
    Use use = Use::kJson;
  };
  // An object's members: declared ones in order, and kinds of others.
  struct Members {
    struct Declared {
      std::string name;
      std::vector<Part> value;
      bool required = false;
    };
    struct Others {
      std::optional<Regular> names;  // none: any
      std::vector<Part> value;
    };
    std::vector<Declared> declared;
    std::vector<Others> others;
    uint32_t min = 0;
    uint32_t max = kUnbounded;
  };
  struct Items {
    std::vector<std::vector<Part>> first;
    std::optional<std::vector<Part>> rest;  // none: no more
    uint32_t min = 0;
    uint32_t max = kUnbounded;
  };

  NodeId rule_of(std::vector<Part> parts, Use use);
  Result<void> run_jobs();
  Result<NodeId> body_of(const std::vector<Part>& given, Use use);
  Result<NodeId> combined(Parts parts, Use use);
  Result<NodeId> plain(const std::vector<Part>& own, Use use);
  Result<NodeId> constants(const std::vector<Part>& own, uint8_t types, Use use);
  NodeId nothing(const std::string& pointer);

  Result<NodeId> string(const std::vector<Part>& own, Use use);
  Result<std::optional<Regular>> texts(const std::vector<Part>& own, const Lengths& lengths);

  Result<Members> members_of(const std::vector<Part>& own);
  // Names that a pattern matches, and what holds for their values.
  struct Pattern {
    Regular names;
    Part value;
  };
  Result<const std::vector<Pattern>*> patterns_of(const Part& part);
  Result<void> add_others(const std::vector<Part>& own, Members& members);
  Result<std::vector<Part>> value_of_member(const std::vector<Part>& own, const std::string& name);
  Result<std::optional<Regular>> names_of(const std::vector<Part>& own);
  Result<NodeId> object(const std::vector<Part>& own);
  // In JSON without a style.
  NodeId member(const Members::Declared& declared, const ParameterStyle* style);
  NodeId other(const Members::Others& others, const ParameterStyle* style);
  NodeId chain(const Members& members, NodeId separator, NodeId close, NodeId close_empty,
               const ParameterStyle* style);

  Result<Items> items_of(const std::vector<Part>& own);
  Result<NodeId> array(const std::vector<Part>& own);

  GrammarBuilder& builder_;
  SchemaOptions options_;
  JsonRules json_;
  SchemaReader reader_;
  const ParameterStyle* style_ = nullptr;  // of values that are Use::kText
  std::map<std::pair<std::vector<const Json*>, Use>, RuleId> rules_;
  std::vector<Job> jobs_;
  std::optional<NodeId> any_text_;                        // of parameters, with their end
  std::map<const Json*, std::vector<Pattern>> patterns_;  // by schema
  size_t num_expressions_ = 0;
  size_t num_combined_ = 0;
  std::string nothing_at_;
};

}  // namespace stoker::grammar
