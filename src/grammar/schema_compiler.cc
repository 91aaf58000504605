#include "grammar/schema_compiler.h"

#include <algorithm>

#include "base/try.h"

namespace stoker::grammar {
namespace {

constexpr size_t kMaxRules = 50'000;
constexpr size_t kMaxCombined = 20'000;
constexpr size_t kMaxExpressions = 1000;

const Json* keyword_of(const Part& part, const char* name) {
  return part.schema->find(name);
}

// The constants that all schemas with constants have.
std::vector<const Json*> common_constants(const std::vector<Part>& own) {
  std::optional<std::vector<const Json*>> values;
  for (const Part& part : own) {
    const auto more = constants_of(*part.schema);
    if (!more) continue;
    if (!values) {
      values = more;
      continue;
    }
    const auto is_elsewhere = [&](const Json* value) {
      return std::any_of(more->begin(), more->end(),
                         [value](const Json* other) { return same_value(*other, *value); });
    };
    values->erase(std::stable_partition(values->begin(), values->end(), is_elsewhere),
                  values->end());
  }
  return values.value_or(std::vector<const Json*>());
}

bool has_length(const std::string& text, const Lengths& lengths) {
  const auto length = std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
  return static_cast<size_t>(length) >= lengths.min && static_cast<size_t>(length) <= lengths.max;
}

// A number as number_range() spells it; empty beyond what is compared.
std::string plain_number(const std::string& text) {
  const auto number = parse_decimal(text);
  if (!number) return "";
  return (number->negative ? "-" : "") + number->integer +
         (number->fraction.empty() ? "" : "." + number->fraction);
}

// Constants that are arrays or objects are not held against what else is said of these.
Result<void> check_unstructured(const std::vector<Part>& own, const Json& value) {
  if (!value.is_array() && !value.is_object()) return {};
  for (const Part& part : own) {
    for (const char* name : {"properties", "required", "items", "prefixItems", "minItems",
                             "maxItems", "minProperties", "maxProperties", "patternProperties",
                             "additionalProperties", "propertyNames", "uniqueItems"}) {
      if (keyword_of(part, name) == nullptr) continue;
      return schema_error(ErrorCode::kUnsupported, child_pointer(part.pointer, name),
                          "together with constants that are arrays or objects");
    }
  }
  return {};
}

}  // namespace

Result<NodeId> SchemaCompiler::value(const Part& part) {
  const NodeId root = rule_of({part}, Use::kJson);
  if (Result<void> done = run_jobs(); !done) return std::move(done).error();
  return root;
}

Result<NodeId> SchemaCompiler::parameters(const Part& part, const ParameterStyle& style) {
  style_ = &style;
  Parts parts;
  if (Result<void> done = reader_.add(part, parts); !done) return std::move(done).error();
  uint8_t types = kAnyType;
  for (const Part& own : parts.own) {
    TRY_ASSIGN(const uint8_t one, types_of(own));
    types &= one;
  }
  if ((types & kObject) == 0 || parts.nothing_holds) {
    return schema_error(ErrorCode::kInvalidArgument, part.pointer,
                        "expected the schema of an object");
  }
  if (!parts.groups.empty()) {
    return schema_error(ErrorCode::kUnsupported, parts.groups[0].pointer,
                        "parameters of a tool cannot be alternatives");
  }
  TRY_ASSIGN(const Members members, members_of(parts.own));
  const NodeId root = chain(members, builder_.literal(style.separator),
                            builder_.literal(style.close), builder_.literal(style.close), &style);
  if (Result<void> done = run_jobs(); !done) return std::move(done).error();
  return root;
}

NodeId SchemaCompiler::nothing(const std::string& pointer) {
  if (nothing_at_.empty()) nothing_at_ = pointer;
  return builder_.choice({});
}

// The rule of a value of which all the parts hold; its body may come later.
NodeId SchemaCompiler::rule_of(std::vector<Part> parts, Use use) {
  if (parts.empty() && use == Use::kJson) return json_.value();
  std::vector<const Json*> key;
  key.reserve(parts.size());
  for (const Part& part : parts) key.push_back(part.schema);
  const auto [at, is_new] = rules_.try_emplace({std::move(key), use}, 0);
  if (is_new) {
    at->second = builder_.declare("schema");
    jobs_.push_back({at->second, std::move(parts), use});
  }
  return builder_.rule(at->second);
}

Result<void> SchemaCompiler::run_jobs() {
  while (!jobs_.empty()) {
    if (builder_.too_large() || rules_.size() > kMaxRules) {
      return Error{ErrorCode::kInvalidArgument,
                   "schema too large: it has more than " + std::to_string(kMaxRules) + " values",
                   {}};
    }
    const Job job = std::move(jobs_.back());
    jobs_.pop_back();
    TRY_ASSIGN(const NodeId body, body_of(job.parts, job.use));
    builder_.define(job.rule, body);
  }
  return {};
}

Result<NodeId> SchemaCompiler::body_of(const std::vector<Part>& given, Use use) {
  Parts parts;
  for (const Part& part : given)
    if (Result<void> done = reader_.add(part, parts); !done) return std::move(done).error();
  return combined(std::move(parts), use);
}

// One branch of each group, together with what holds anyway.
Result<NodeId> SchemaCompiler::combined(Parts parts, Use use) {
  if (++num_combined_ > kMaxCombined) {
    return Error{ErrorCode::kInvalidArgument,
                 "schema too large: its alternatives combine in more than " +
                     std::to_string(kMaxCombined) + " ways",
                 {}};
  }
  if (parts.nothing_holds) return nothing(parts.false_at);
  if (parts.groups.empty()) return plain(parts.own, use);
  const Parts::Group group = std::move(parts.groups.back());
  parts.groups.pop_back();
  parts.chosen.push_back(group.pointer);
  if (group.exactly_one) {
    if (Result<void> done = reader_.check_exclusive(group); !done) return std::move(done).error();
  }
  std::vector<NodeId> alternatives;
  for (const Part& branch : group.branches) {
    Parts with = parts;
    if (Result<void> done = reader_.add(branch, with); !done) return std::move(done).error();
    if (with.groups.size() > 64) {
      return schema_error(ErrorCode::kUnsupported, branch.pointer,
                          "more than 64 alternatives within each other");
    }
    TRY_ASSIGN(const NodeId one, combined(std::move(with), use));
    alternatives.push_back(one);
  }
  return builder_.choice(alternatives);
}

Result<NodeId> SchemaCompiler::plain(const std::vector<Part>& own, Use use) {
  uint8_t types = kAnyType;
  if (use == Use::kText) types = kString;
  if (use == Use::kOtherJson) types = kAnyType & ~kString;
  bool has_constants = false;
  for (const Part& part : own) {
    TRY_ASSIGN(const uint8_t one, types_of(part));
    if ((types & one) == 0 && types != 0 && use == Use::kJson) nothing(part.pointer);
    types &= one;
    has_constants = has_constants || constants_of(*part.schema).has_value();
  }
  if (has_constants) return constants(own, types, use);
  std::vector<NodeId> alternatives;
  if ((types & kObject) != 0) {
    TRY_ASSIGN(const NodeId one, object(own));
    alternatives.push_back(one);
  }
  if ((types & kArray) != 0) {
    TRY_ASSIGN(const NodeId one, array(own));
    alternatives.push_back(one);
  }
  if ((types & kString) != 0) {
    TRY_ASSIGN(const NodeId one, string(own, use));
    alternatives.push_back(one);
  }
  if ((types & (kIntegral | kFractional)) != 0) {
    const bool integers_only = (types & kFractional) == 0;
    TRY_ASSIGN(const std::optional<NumberRange> range, range_of(own, integers_only));
    if (range) {
      TRY_ASSIGN(Regular numbers, number_range(*range));
      if (is_empty(numbers)) nothing(own[0].pointer);
      alternatives.push_back(builder_.regular(std::move(numbers)));
    } else {
      alternatives.push_back(integers_only ? json_.integer() : json_.number());
    }
  }
  if ((types & kBoolean) != 0) alternatives.push_back(json_.boolean());
  if ((types & kNull) != 0) alternatives.push_back(builder_.literal("null"));
  return builder_.choice(alternatives);
}

// The values of `enum` and `const` that the rest allows too.
Result<NodeId> SchemaCompiler::constants(const std::vector<Part>& own, uint8_t types, Use use) {
  TRY_ASSIGN(const Lengths lengths, lengths_of(own));
  TRY_ASSIGN(const std::optional<Regular> allowed, texts(own, lengths));
  TRY_ASSIGN(const std::optional<NumberRange> range, range_of(own, false));
  Regular numbers;
  if (range) {
    TRY_ASSIGN(numbers, number_range(*range));
  }
  std::vector<NodeId> alternatives;
  for (const Json* value : common_constants(own)) {
    const uint8_t type = type_of(*value);
    if ((type & types) == 0) continue;
    const std::string& text = value->as_string();
    if (type == kString) {
      const bool ends_itself =
          use == Use::kText && text.find(style_->text_without) != std::string::npos;
      if (ends_itself || !(allowed ? contains(*allowed, text) : has_length(text, lengths)))
        continue;
    } else if (range && value->is_number() && !contains(numbers, plain_number(text))) {
      continue;
    }
    if (Result<void> done = check_unstructured(own, *value); !done) return std::move(done).error();
    alternatives.push_back(use == Use::kText ? builder_.literal(text + style_->end)
                                             : json_.constant(*value));
  }
  if (alternatives.empty() && use == Use::kJson) return nothing(own.back().pointer);
  return builder_.choice(alternatives);
}

// As texts_of, at most kMaxExpressions times.
Result<std::optional<Regular>> SchemaCompiler::texts(const std::vector<Part>& own,
                                                     const Lengths& lengths) {
  for (const Part& part : own)
    for (const char* keyword : {"pattern", "format"})
      if (keyword_of(part, keyword) != nullptr) ++num_expressions_;
  if (num_expressions_ > kMaxExpressions) {
    return Error{
        ErrorCode::kInvalidArgument,
        "schema too large: it has more than " + std::to_string(kMaxExpressions) + " patterns",
        {}};
  }
  return texts_of(own, lengths);
}

Result<NodeId> SchemaCompiler::string(const std::vector<Part>& own, Use use) {
  TRY_ASSIGN(const Lengths lengths, lengths_of(own));
  TRY_ASSIGN(std::optional<Regular> allowed, texts(own, lengths));
  if (lengths.min > lengths.max || (allowed && is_empty(*allowed))) return nothing(own[0].pointer);
  if (use == Use::kJson) {
    if (!allowed)
      return lengths.is_any() ? json_.string() : json_.string_of_length(lengths.min, lengths.max);
    return builder_.sequence({builder_.literal("\""), builder_.regular(json_spelling(*allowed)),
                              builder_.literal("\"")});
  }
  if (!allowed && !lengths.is_any()) {
    TRY_ASSIGN(allowed, regular_length(lengths.min, lengths.max));
  }
  const NodeId end = builder_.literal(style_->end);
  if (allowed) {
    TRY_ASSIGN(Regular text, intersection(*allowed, regular_text_without(style_->text_without)));
    return builder_.sequence({builder_.regular(std::move(text)), end});
  }
  if (!any_text_) {
    any_text_ = builder_.shared_rule(
        "text", builder_.sequence({builder_.text_without(style_->text_without), end}));
  }
  return *any_text_;
}

Result<SchemaCompiler::Items> SchemaCompiler::items_of(const std::vector<Part>& own) {
  Items items;
  size_t num_first = 0;
  for (const Part& part : own) {
    const Json* first = keyword_of(part, "prefixItems");
    if (first != nullptr) num_first = std::max(num_first, first->items().size());
    const Json* unique = keyword_of(part, "uniqueItems");
    const Json* rest = keyword_of(part, "items");
    if (rest != nullptr && rest->is_array()) {
      return schema_error(ErrorCode::kUnsupported, child_pointer(part.pointer, "items"),
                          "a list of schemas is not supported here; use prefixItems");
    }
    TRY_ASSIGN(const std::optional<uint32_t> max, count_of({part}, "maxItems", false));
    if (unique != nullptr && unique->as_bool() && max.value_or(2) > 1) {
      return schema_error(ErrorCode::kUnsupported, child_pointer(part.pointer, "uniqueItems"),
                          "items that differ cannot be held");
    }
  }
  items.first.resize(num_first);
  items.rest.emplace();
  for (const Part& part : own) {
    const Json* first = keyword_of(part, "prefixItems");
    const Json* rest = keyword_of(part, "items");
    const Part rest_part{rest, child_pointer(part.pointer, "items")};
    for (size_t i = 0; i < num_first; ++i) {
      if (first != nullptr && i < first->items().size()) {
        items.first[i].push_back(
            {&first->items()[i],
             child_pointer(child_pointer(part.pointer, "prefixItems"), std::to_string(i))});
      } else if (rest != nullptr) {
        items.first[i].push_back(rest_part);
      }
    }
    if (rest == nullptr) continue;
    if (rest->is_bool() && !rest->as_bool()) {
      items.rest.reset();
    } else if (items.rest && !rest->is_bool()) {
      items.rest->push_back(rest_part);
    }
  }
  TRY_ASSIGN(const std::optional<uint32_t> min, count_of(own, "minItems", true));
  TRY_ASSIGN(const std::optional<uint32_t> max, count_of(own, "maxItems", false));
  items.min = min.value_or(0);
  items.max = max.value_or(kUnbounded);
  return items;
}

Result<NodeId> SchemaCompiler::array(const std::vector<Part>& own) {
  TRY_ASSIGN(Items items, items_of(own));
  if (!items.rest) items.max = std::min(items.max, static_cast<uint32_t>(items.first.size()));
  if (items.min > items.max) return nothing(own[0].pointer);
  if (items.first.size() > items.max) items.first.resize(items.max);
  const auto num_first = static_cast<uint32_t>(items.first.size());
  if (num_first == 0) {
    if (items.min == 0 && items.max == kUnbounded && items.rest->empty()) return json_.array();
    const NodeId item = items.max == 0 ? builder_.empty() : rule_of(*items.rest, Use::kJson);
    return json_.list('[', item, items.min, items.max);
  }
  // From the back: what may follow the first i items.
  NodeId after = json_.close(']');
  if (items.max > num_first) {
    const NodeId more = builder_.sequence({json_.comma(), rule_of(*items.rest, Use::kJson)});
    const uint32_t max = items.max == kUnbounded ? kUnbounded : items.max - num_first;
    after = builder_.sequence(
        {builder_.repeat(more, items.min > num_first ? items.min - num_first : 0, max), after});
  }
  for (uint32_t i = num_first; i-- > 0;) {
    const RuleId rule = builder_.declare("items");
    builder_.define(rule, after);
    const NodeId item = rule_of(items.first[i], Use::kJson);
    after = i == 0 ? builder_.sequence({item, builder_.rule(rule)})
                   : builder_.sequence({json_.comma(), item, builder_.rule(rule)});
    if (i >= items.min)
      after = builder_.choice({after, i == 0 ? builder_.literal("]") : json_.close(']')});
  }
  return builder_.sequence({json_.open('['), after});
}

}  // namespace stoker::grammar
