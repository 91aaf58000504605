// The objects of SchemaCompiler: declared properties in their order, each there or not, and then
// others whose names are none of the declared.
#include <algorithm>

#include "base/try.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace stoker::grammar {
namespace {

constexpr size_t kMaxPatterns = 64;

Result<Regular> names_matching(const std::string& expression, const std::string& pointer) {
  GrammarBuilder builder;
  Result<NodeId> root = add_regex(builder, expression, RegexMatch::kSearch);
  if (!root) return std::move(root).with("schema at " + pointer).error();
  TRY_ASSIGN(const Grammar grammar, std::move(builder).finish(*root));
  return to_regular(grammar).with("schema at " + pointer);
}

}  // namespace

// The patterns of a schema; a name matches one of them at most.
Result<const std::vector<SchemaCompiler::Pattern>*> SchemaCompiler::patterns_of(const Part& part) {
  const auto [found, is_new] = patterns_.try_emplace(part.schema);
  std::vector<Pattern>& patterns = found->second;
  const Json* list = part.schema->find("patternProperties");
  if (!is_new || list == nullptr) return &patterns;
  const std::string at = child_pointer(part.pointer, "patternProperties");
  if (list->members().size() > kMaxPatterns) {
    return schema_error(ErrorCode::kUnsupported, at,
                        "more than " + std::to_string(kMaxPatterns) + " patterns");
  }
  for (const auto& [expression, schema] : list->members()) {
    const std::string pointer = child_pointer(at, expression);
    TRY_ASSIGN(Regular names, names_matching(expression, pointer));
    for (const Pattern& other : patterns) {
      TRY_ASSIGN(const Regular common, intersection(names, other.names));
      if (is_empty(common)) continue;
      return schema_error(ErrorCode::kUnsupported, pointer,
                          "some names match another pattern too (" + other.value.pointer + ")");
    }
    patterns.push_back({std::move(names), {&schema, pointer}});
  }
  return &patterns;
}

// What holds for the value of a name: of each schema its property, or its patterns, or else what it
// says of others.
Result<std::vector<Part>> SchemaCompiler::value_of_member(const std::vector<Part>& own,
                                                          const std::string& name) {
  std::vector<Part> value;
  for (const Part& part : own) {
    const Json* properties = part.schema->find("properties");
    const Json* property = properties != nullptr ? properties->find(name) : nullptr;
    bool is_known = property != nullptr;
    if (is_known) {
      value.push_back({property, child_pointer(child_pointer(part.pointer, "properties"), name)});
    }
    TRY_ASSIGN(const std::vector<Pattern>* patterns, patterns_of(part));
    for (const Pattern& pattern : *patterns) {
      if (!contains(pattern.names, name)) continue;
      value.push_back(pattern.value);
      is_known = true;
    }
    const Json* others = part.schema->find("additionalProperties");
    if (!is_known && others != nullptr && !(others->is_bool() && others->as_bool()))
      value.push_back({others, child_pointer(part.pointer, "additionalProperties")});
  }
  return value;
}

// Names that `propertyNames` allows; none: all.
Result<std::optional<Regular>> SchemaCompiler::names_of(const std::vector<Part>& own) {
  Parts parts;
  std::string pointer;
  for (const Part& part : own) {
    const Json* names = part.schema->find("propertyNames");
    if (names == nullptr) continue;
    pointer = child_pointer(part.pointer, "propertyNames");
    Result<void> done = reader_.add({names, pointer}, parts);
    if (!done) return std::move(done).error();
  }
  if (pointer.empty()) return std::optional<Regular>();
  if (!parts.groups.empty()) {
    return schema_error(ErrorCode::kUnsupported, parts.groups[0].pointer,
                        "alternatives of names are not supported");
  }
  if (parts.nothing_holds) return std::optional<Regular>(Regular{{Regular::State{}}});
  TRY_ASSIGN(const Lengths lengths, lengths_of(parts.own));
  TRY_ASSIGN(std::optional<Regular> names, texts(parts.own, lengths));
  if (!names && !lengths.is_any()) {
    TRY_ASSIGN(names, regular_length(lengths.min, lengths.max));
  }
  if (!names) names = regular_utf8();
  for (const Part& part : parts.own) {
    TRY_ASSIGN(const uint8_t types, types_of(part));
    if ((types & kString) == 0) names = Regular{{Regular::State{}}};
    const auto constants = constants_of(*part.schema);
    if (!constants) continue;
    std::vector<std::string_view> allowed;
    for (const Json* value : *constants)
      if (value->is_string()) allowed.push_back(value->as_string());
    TRY_ASSIGN(names, intersection(*names, regular_of_strings(allowed)));
  }
  return names;
}

Result<SchemaCompiler::Members> SchemaCompiler::members_of(const std::vector<Part>& own) {
  Members members;
  std::map<std::string, size_t> index;
  const auto declare = [&](const std::string& name) -> Members::Declared& {
    const auto [at, is_new] = index.try_emplace(name, members.declared.size());
    if (is_new) members.declared.push_back({name, {}, false});
    return members.declared[at->second];
  };
  for (const Part& part : own)
    if (const Json* properties = part.schema->find("properties"))
      for (const auto& [name, unused] : properties->members()) declare(name);
  const size_t num_with_properties = members.declared.size();
  for (const Part& part : own) {
    const Json* required = part.schema->find("required");
    if (required == nullptr) continue;
    for (const Json& name : required->items()) {
      if (!name.is_string()) {
        return schema_error(ErrorCode::kInvalidArgument, child_pointer(part.pointer, "required"),
                            std::string("expected names, found ") + name.kind_name());
      }
      declare(name.as_string()).required = true;
    }
  }
  TRY_ASSIGN(const std::optional<Regular> names, names_of(own));
  for (size_t i = 0; i < members.declared.size(); ++i) {
    Members::Declared& declared = members.declared[i];
    TRY_ASSIGN(declared.value, value_of_member(own, declared.name));
    const bool is_closed = options_.disable_additional_properties && num_with_properties > 0 &&
                           i >= num_with_properties && declared.value.empty();
    if ((names && !contains(*names, declared.name)) || is_closed) {
      static const Json never = Json::boolean(false);
      declared.value = {{&never, own[0].pointer}};
    }
  }
  if (Result<void> done = add_others(own, members); !done) return std::move(done).error();
  TRY_ASSIGN(const std::optional<uint32_t> min, count_of(own, "minProperties", true));
  TRY_ASSIGN(const std::optional<uint32_t> max, count_of(own, "maxProperties", false));
  members.min = min.value_or(0);
  members.max = max.value_or(kUnbounded);
  return members;
}

// The kinds of members that are not declared.
Result<void> SchemaCompiler::add_others(const std::vector<Part>& own, Members& members) {
  std::vector<std::string_view> declared;
  for (const Members::Declared& one : members.declared) declared.push_back(one.name);
  TRY_ASSIGN(const std::optional<Regular> allowed, names_of(own));
  const std::vector<Pattern>* patterns = nullptr;  // of the only schema that has some
  for (const Part& part : own) {
    TRY_ASSIGN(const std::vector<Pattern>* more, patterns_of(part));
    if (more->empty()) continue;
    if (patterns != nullptr) {
      return schema_error(ErrorCode::kUnsupported, more->front().value.pointer,
                          "together with another schema that has patternProperties");
    }
    patterns = more;
  }
  std::vector<Part> rest;
  bool has_properties = false;
  bool is_stated = false;
  bool is_closed = false;
  for (const Part& part : own) {
    has_properties = has_properties || part.schema->find("properties") != nullptr;
    const Json* others = part.schema->find("additionalProperties");
    if (others == nullptr) continue;
    is_stated = true;
    is_closed = is_closed || (others->is_bool() && !others->as_bool());
    if (!others->is_bool())
      rest.push_back({others, child_pointer(part.pointer, "additionalProperties")});
  }
  if (patterns != nullptr && own.size() > 1 && is_stated) {
    return schema_error(ErrorCode::kUnsupported, patterns->front().value.pointer,
                        "together with another schema that has additionalProperties");
  }
  if (options_.disable_additional_properties && has_properties && !is_stated) is_closed = true;
  Regular others = allowed ? *allowed : regular_utf8();
  const bool is_any = !allowed && declared.empty() && patterns == nullptr;
  TRY_ASSIGN(others, difference(others, regular_of_strings(declared)));
  static const std::vector<Pattern> no_patterns;
  for (const Pattern& pattern : patterns != nullptr ? *patterns : no_patterns) {
    TRY_ASSIGN(const Regular names, intersection(others, pattern.names));
    if (!is_empty(names)) members.others.push_back({names, {pattern.value}});
    TRY_ASSIGN(others, difference(others, pattern.names));
  }
  if (is_closed || is_empty(others)) return {};
  members.others.push_back(
      {is_any ? std::nullopt : std::optional<Regular>(std::move(others)), std::move(rest)});
  return {};
}

Result<NodeId> SchemaCompiler::object(const std::vector<Part>& own) {
  TRY_ASSIGN(Members members, members_of(own));
  const auto num_declared = static_cast<uint32_t>(members.declared.size());
  const auto num_required = static_cast<uint32_t>(
      std::count_if(members.declared.begin(), members.declared.end(),
                    [](const Members::Declared& one) { return one.required; }));
  if (members.others.empty()) members.max = std::min(members.max, num_declared);
  if (members.min > members.max || num_required > members.max) return nothing(own[0].pointer);
  if (num_declared == 0) {
    const bool is_any = members.others.size() == 1 && !members.others[0].names &&
                        members.others[0].value.empty() && members.min == 0 &&
                        members.max == kUnbounded;
    if (is_any) return json_.object();
    std::vector<NodeId> kinds;
    for (const Members::Others& others : members.others) kinds.push_back(other(others, nullptr));
    return json_.list('{', builder_.choice(kinds), members.min, members.max);
  }
  const bool may_be_too_many = !members.others.empty() || members.max < num_declared;
  if (members.min > num_required || (members.max != kUnbounded && may_be_too_many)) {
    for (const Part& part : own) {
      for (const char* keyword : {"minProperties", "maxProperties"}) {
        if (part.schema->find(keyword) == nullptr) continue;
        return schema_error(ErrorCode::kUnsupported, child_pointer(part.pointer, keyword),
                            "a bound that declared properties do not decide");
      }
    }
  }
  const NodeId begin = json_.open('{');
  return builder_.sequence(
      {begin, chain(members, json_.comma(), json_.close('}'), builder_.literal("}"), nullptr)});
}

NodeId SchemaCompiler::member(const Members::Declared& declared, const ParameterStyle* style) {
  if (style == nullptr) {
    return builder_.sequence({builder_.literal(json_quote(declared.name)), json_.colon(),
                              rule_of(declared.value, Use::kJson)});
  }
  const NodeId text =
      builder_.sequence({builder_.literal(style->text_begin), rule_of(declared.value, Use::kText)});
  const NodeId json =
      builder_.sequence({builder_.literal(style->json_begin),
                         rule_of(declared.value, Use::kOtherJson), builder_.literal(style->end)});
  return builder_.sequence(
      {builder_.literal(style->begin + declared.name), builder_.choice({text, json})});
}

NodeId SchemaCompiler::other(const Members::Others& others, const ParameterStyle* style) {
  if (style == nullptr) {
    const NodeId name = others.names
                            ? builder_.sequence({builder_.literal("\""),
                                                 builder_.regular(json_spelling(*others.names)),
                                                 builder_.literal("\"")})
                            : json_.string();
    return builder_.sequence({name, json_.colon(), rule_of(others.value, Use::kJson)});
  }
  // Names are not escaped here: one that would end itself is left out.
  const Regular plain = regular_text_without("\"");
  auto names = intersection(others.names ? *others.names : plain, plain);
  if (!names) return builder_.choice({});
  const NodeId text =
      builder_.sequence({builder_.literal(style->text_begin), rule_of(others.value, Use::kText)});
  const NodeId json =
      builder_.sequence({builder_.literal(style->json_begin),
                         rule_of(others.value, Use::kOtherJson), builder_.literal(style->end)});
  return builder_.sequence({builder_.literal(style->begin), builder_.regular(*std::move(names)),
                            builder_.choice({text, json})});
}

// The members and what closes them. Rules at the end of rules are jumps (nfa.h), so what may follow
// a member is there once, however it was reached.
NodeId SchemaCompiler::chain(const Members& members, NodeId separator, NodeId close,
                             NodeId close_empty, const ParameterStyle* style) {
  std::vector<NodeId> kinds;
  for (const Members::Others& others : members.others) kinds.push_back(other(others, style));
  const NodeId one_more = builder_.choice(kinds);
  const auto rule_with = [this](const char* name, NodeId body) {
    const RuleId rule = builder_.declare(name);
    builder_.define(rule, body);
    return builder_.rule(rule);
  };
  // Behind some member; and behind none yet.
  NodeId after = rule_with(
      "after members",
      builder_.sequence({builder_.repeat(builder_.sequence({separator, one_more}), 0), close}));
  NodeId first =
      rule_with("no members", builder_.choice({close_empty, builder_.sequence({one_more, after})}));
  for (size_t i = members.declared.size(); i-- > 0;) {
    const Members::Declared& declared = members.declared[i];
    const NodeId here = rule_with("member", builder_.sequence({member(declared, style), after}));
    const NodeId next = builder_.sequence({separator, here});
    after = rule_with("after members", declared.required ? next : builder_.choice({next, after}));
    first = rule_with("members", declared.required ? here : builder_.choice({here, first}));
  }
  return first;
}

}  // namespace stoker::grammar
