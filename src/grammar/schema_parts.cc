#include "grammar/schema_parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/try.h"
#include "grammar/decimal_range.h"

namespace stoker::grammar {
namespace {

constexpr int kMaxDepth = 200;  // of combinations and references in each other

// Constrain, and are honoured or refused where they are read.
constexpr std::array<std::string_view, 30> kKeywords = {"type",
                                                        "enum",
                                                        "const",
                                                        "properties",
                                                        "required",
                                                        "items",
                                                        "prefixItems",
                                                        "minItems",
                                                        "maxItems",
                                                        "uniqueItems",
                                                        "minLength",
                                                        "maxLength",
                                                        "pattern",
                                                        "format",
                                                        "minimum",
                                                        "maximum",
                                                        "multipleOf",
                                                        "exclusiveMinimum",
                                                        "exclusiveMaximum",
                                                        "anyOf",
                                                        "oneOf",
                                                        "allOf",
                                                        "$ref",
                                                        "$defs",
                                                        "definitions",
                                                        "minProperties",
                                                        "maxProperties",
                                                        "additionalProperties",
                                                        "patternProperties",
                                                        "propertyNames"};
// Say something to people.
constexpr std::array<std::string_view, 15> kAnnotations = {
    "title",    "description", "default",     "examples",         "example",
    "$schema",  "$id",         "$comment",    "$anchor",          "deprecated",
    "readOnly", "writeOnly",   "$vocabulary", "contentMediaType", "contentEncoding"};

template <size_t n>
bool is_one_of(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::pair<std::string_view, uint8_t>, 7> kTypeNames = {
    {{"null", kNull},
     {"boolean", kBoolean},
     {"integer", kIntegral},
     {"number", kIntegral | kFractional},
     {"string", kString},
     {"array", kArray},
     {"object", kObject}}};

std::optional<uint8_t> type_named(const Json& name) {
  for (const auto& [known, types] : kTypeNames)
    if (name.is_string() && name.as_string() == known) return types;
  return std::nullopt;
}

// %41 is A; what is no such escape stays.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto nibble = [](char c) { return std::string_view("0123456789abcdef").find(c | 0x20); };
    if (text[i] == '%' && i + 2 < text.size() && nibble(text[i + 1]) < 16 &&
        nibble(text[i + 2]) < 16) {
      out.push_back(static_cast<char>(nibble(text[i + 1]) * 16 + nibble(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string unescaped_step(std::string_view step) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      out.push_back(step[++i] == '0' ? '~' : '/');
    } else {
      out.push_back(step[i]);
    }
  }
  return out;
}

const Json* step_into(const Json& value, const std::string& step) {
  if (value.is_object()) return value.find(step);
  if (!value.is_array() || step.empty() || step.size() > 9) return nullptr;
  if (step.find_first_not_of("0123456789") != std::string::npos) return nullptr;
  const size_t index = std::stoul(step);
  return index < value.items().size() ? &value.items()[index] : nullptr;
}

}  // namespace

// What is known of the values of a schema without looking at all of it.
struct SchemaReader::Outline {
  uint8_t types = kAnyType;
  std::optional<std::vector<const Json*>> constants;
  std::map<std::string, std::vector<const Json*>> tags;  // required properties with constants
};

Error schema_error(ErrorCode code, const std::string& pointer, const std::string& message) {
  return {code, "schema at " + pointer + ": " + message, {}};
}

std::string child_pointer(const std::string& pointer, std::string_view step) {
  std::string out = pointer + "/";
  for (const char c : step) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

uint8_t type_of(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::kNull:
      return kNull;
    case Json::Kind::kBool:
      return kBoolean;
    case Json::Kind::kString:
      return kString;
    case Json::Kind::kArray:
      return kArray;
    case Json::Kind::kObject:
      return kObject;
    case Json::Kind::kNumber:
      break;
  }
  const auto number = parse_decimal(value.as_string());
  return number && number->is_integer() ? kIntegral : kFractional;
}

bool same_value(const Json& a, const Json& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Json::Kind::kNull:
      return true;
    case Json::Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Json::Kind::kString:
      return a.as_string() == b.as_string();
    case Json::Kind::kNumber: {
      const auto x = parse_decimal(a.as_string());
      const auto y = parse_decimal(b.as_string());
      return x && y ? compare(*x, *y) == 0 : a.as_string() == b.as_string();
    }
    case Json::Kind::kArray:
      return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                        same_value);
    case Json::Kind::kObject:
      break;
  }
  return a.members().size() == b.members().size() &&
         std::all_of(a.members().begin(), a.members().end(), [&b](const Json::Member& member) {
           const Json* other = b.find(member.first);
           return other != nullptr && same_value(member.second, *other);
         });
}

Result<uint8_t> types_of(const Part& part) {
  const Json* type = part.schema->find("type");
  if (type == nullptr) return uint8_t{kAnyType};
  uint8_t types = kNoType;
  const auto add = [&types](const Json& name) {
    const auto known = type_named(name);
    types |= known.value_or(0);
    return known.has_value();
  };
  const bool is_known =
      type->is_array() ? std::all_of(type->items().begin(), type->items().end(), add) : add(*type);
  if (!is_known) {
    return schema_error(ErrorCode::kInvalidArgument, child_pointer(part.pointer, "type"),
                        "expected the name of a type or a list of them, found " + type->dump());
  }
  return types;
}

std::optional<std::vector<const Json*>> constants_of(const Json& schema) {
  const Json* only = schema.find("const");
  const Json* list = schema.find("enum");
  if (only == nullptr && list == nullptr) return std::nullopt;
  std::vector<const Json*> values;
  if (list != nullptr) {
    for (const Json& value : list->items())
      if (only == nullptr || same_value(value, *only)) values.push_back(&value);
  } else {
    values.push_back(only);
  }
  return values;
}

Result<void> SchemaReader::check_keywords(const Part& part) {
  if (!checked_.insert(part.schema).second) return {};
  for (const auto& [name, value] : part.schema->members()) {
    const bool is_list = name == "allOf" || name == "anyOf" || name == "oneOf";
    const bool is_object = name == "properties" || name == "patternProperties";
    if ((is_list || name == "enum" || name == "prefixItems" || name == "required") &&
        (!value.is_array() || (is_list && value.items().empty()))) {
      return schema_error(ErrorCode::kInvalidArgument, child_pointer(part.pointer, name),
                          std::string("expected a list, found ") + value.kind_name());
    }
    if (is_object && !value.is_object()) {
      return schema_error(ErrorCode::kInvalidArgument, child_pointer(part.pointer, name),
                          std::string("expected an object, found ") + value.kind_name());
    }
    if (is_one_of(kKeywords, name) || is_one_of(kAnnotations, name) ||
        name.compare(0, 2, "x-") == 0)
      continue;
    return schema_error(ErrorCode::kUnsupported, child_pointer(part.pointer, name),
                        "this keyword is not supported");
  }
  return {};
}

Result<Part> SchemaReader::resolve(const Part& part, const Json& reference) const {
  const std::string at = child_pointer(part.pointer, "$ref");
  const std::string& text = reference.as_string();
  if (!reference.is_string() || text.empty() || text[0] != '#' ||
      (text.size() > 1 && text[1] != '/')) {
    return schema_error(
        ErrorCode::kUnsupported, at,
        "expected a reference within the schema, \"#\" or \"#/...\", found " + reference.dump());
  }
  const Json* target = &document_;
  const std::string path = percent_decoded(std::string_view(text).substr(1));
  for (size_t begin = 1; begin <= path.size() && target != nullptr;) {
    const size_t end = std::min(path.find('/', begin), path.size());
    target = step_into(*target, unescaped_step(path.substr(begin, end - begin)));
    begin = end + 1;
  }
  if (target == nullptr) {
    return schema_error(ErrorCode::kInvalidArgument, at,
                        "nothing is at " + reference.dump() + " in this schema");
  }
  return Part{target, "#" + path};
}

Result<void> SchemaReader::add(const Part& part, Parts& out) {
  active_.clear();
  return add_at(part, out, 0);
}

Result<void> SchemaReader::add_at(const Part& part, Parts& out, int depth) {
  const Json& schema = *part.schema;
  if (schema.is_bool()) {
    if (!schema.as_bool() && !out.nothing_holds) {
      out.nothing_holds = true;
      out.false_at = part.pointer;
    }
    return {};
  }
  if (!schema.is_object()) {
    return schema_error(
        ErrorCode::kInvalidArgument, part.pointer,
        std::string("expected an object or a boolean, found ") + schema.kind_name());
  }
  if (depth > kMaxDepth || std::find(active_.begin(), active_.end(), &schema) != active_.end()) {
    return schema_error(ErrorCode::kInvalidArgument, part.pointer,
                        "this schema refers to itself without a value in between");
  }
  if (Result<void> done = check_keywords(part); !done) return std::move(done).error();
  active_.push_back(&schema);
  if (const Json* reference = schema.find("$ref")) {
    TRY_ASSIGN(const Part target, resolve(part, *reference));
    if (Result<void> done = add_at(target, out, depth + 1); !done) return std::move(done).error();
  }
  if (const Json* all = schema.find("allOf")) {
    for (size_t i = 0; i < all->items().size(); ++i) {
      const Part one{&all->items()[i],
                     child_pointer(child_pointer(part.pointer, "allOf"), std::to_string(i))};
      if (Result<void> done = add_at(one, out, depth + 1); !done) return std::move(done).error();
    }
  }
  active_.pop_back();
  for (const std::string_view name : {"anyOf", "oneOf"}) {
    const Json* branches = schema.find(name);
    if (branches == nullptr) continue;
    Parts::Group group;
    group.pointer = child_pointer(part.pointer, name);
    group.exactly_one = name == "oneOf";
    if (std::find(out.chosen.begin(), out.chosen.end(), group.pointer) != out.chosen.end()) {
      return schema_error(ErrorCode::kInvalidArgument, group.pointer,
                          "this schema refers to itself without a value in between");
    }
    const auto is_same = [&group](const Parts::Group& other) {
      return other.pointer == group.pointer;
    };
    if (std::any_of(out.groups.begin(), out.groups.end(), is_same)) continue;
    for (size_t i = 0; i < branches->items().size(); ++i) {
      group.branches.push_back(
          {&branches->items()[i], child_pointer(group.pointer, std::to_string(i))});
    }
    out.groups.push_back(std::move(group));
  }
  out.own.push_back(part);
  return {};
}

Result<SchemaReader::Outline> SchemaReader::outline_of(const Part& part, int depth) {
  Outline outline;
  Parts parts;
  if (Result<void> done = add(part, parts); !done) return std::move(done).error();
  if (parts.nothing_holds) outline.types = kNoType;
  for (const Part& own : parts.own) {
    TRY_ASSIGN(const uint8_t types, types_of(own));
    outline.types &= types;
    if (const auto constants = constants_of(*own.schema)) {
      uint8_t found = kNoType;
      for (const Json* value : *constants) found |= type_of(*value);
      outline.types &= found;
      outline.constants = constants;
    }
    const Json* properties = own.schema->find("properties");
    const Json* required = own.schema->find("required");
    if (properties == nullptr || required == nullptr) continue;
    for (const Json& name : required->items()) {
      const Json* property = properties->find(name.as_string());
      if (property == nullptr || !property->is_object()) continue;
      if (const auto constants = constants_of(*property))
        outline.tags[name.as_string()] = *constants;
    }
  }
  for (const Parts::Group& group : parts.groups) {
    if (depth > 8) break;  // less is known then
    uint8_t any = kNoType;
    for (const Part& branch : group.branches) {
      TRY_ASSIGN(const Outline inner, outline_of(branch, depth + 1));
      any |= inner.types;
    }
    outline.types &= any;
  }
  return outline;
}

Result<void> SchemaReader::check_exclusive(const Parts::Group& group) {
  const auto disjoint = [](const std::vector<const Json*>& a, const std::vector<const Json*>& b) {
    return std::none_of(a.begin(), a.end(), [&b](const Json* x) {
      return std::any_of(b.begin(), b.end(), [x](const Json* y) { return same_value(*x, *y); });
    });
  };
  std::vector<Outline> outlines;
  for (const Part& branch : group.branches) {
    TRY_ASSIGN(Outline outline, outline_of(branch, 0));
    outlines.push_back(std::move(outline));
  }
  for (size_t i = 0; i < outlines.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Outline& a = outlines[i];
      const Outline& b = outlines[j];
      const uint8_t common = a.types & b.types;
      if (common == kNoType) continue;
      if (a.constants && b.constants && disjoint(*a.constants, *b.constants)) continue;
      const bool by_tag =
          common == kObject && std::any_of(a.tags.begin(), a.tags.end(), [&](const auto& tag) {
            const auto other = b.tags.find(tag.first);
            return other != b.tags.end() && disjoint(tag.second, other->second);
          });
      if (by_tag) continue;
      return schema_error(ErrorCode::kUnsupported, group.pointer,
                          "a value may be of several of these schemas (" + std::to_string(j) +
                              " and " + std::to_string(i) +
                              "); make them differ in type, or in a constant of a required "
                              "property, or use anyOf");
    }
  }
  return {};
}

}  // namespace stoker::grammar
