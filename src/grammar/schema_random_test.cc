// Round trips over random schemas: what the masks let through parses and is valid, by a validator
// that knows nothing of grammars; and valid documents in the order of the schema are let through.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "base/json.h"
#include "grammar/json_schema.h"
#include "grammar/test_support.h"

namespace stoker::grammar {
namespace {

using testing::compile_or_die;
using testing::has_bit;
using testing::kEnd;
using testing::small_vocabulary;

size_t code_points_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

bool equal(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return *a.as_double() == *b.as_double();
  if (a.kind() != b.kind()) return false;
  if (a.is_array())
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      equal);
  if (!a.is_object()) return a.dump() == b.dump();
  return a.members().size() == b.members().size() &&
         std::all_of(a.members().begin(), a.members().end(), [&](const auto& member) {
           const Json* other = b.find(member.first);
           return other != nullptr && equal(member.second, *other);
         });
}

// Draft 2020-12 as far as the schemas here go, read from the text of the specification.
class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  bool valid(const Json& schema, const Json& value) const {
    if (schema.is_bool()) return schema.as_bool();
    return combinations(schema, value) && constants(schema, value) && numbers(schema, value) &&
           strings(schema, value) && arrays(schema, value) && objects(schema, value);
  }

 private:
  static bool is_type(const std::string& type, const Json& value) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_bool();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    return value.is_number() &&
           (type == "number" || std::floor(*value.as_double()) == *value.as_double());
  }

  bool combinations(const Json& schema, const Json& value) const {
    const auto count = [&](const char* name) {
      const Json* list = schema.find(name);
      return std::count_if(list->items().begin(), list->items().end(),
                           [&](const Json& one) { return valid(one, value); });
    };
    if (const Json* ref = schema.find("$ref")) {
      const std::string& text = ref->as_string();
      const Json& target = text == "#" ? root_ : *root_.find("$defs")->find(text.substr(8));
      if (!valid(target, value)) return false;
    }
    if (schema.find("anyOf") != nullptr && count("anyOf") == 0) return false;
    if (schema.find("oneOf") != nullptr && count("oneOf") != 1) return false;
    const Json* all = schema.find("allOf");
    return all == nullptr || count("allOf") == static_cast<long>(all->items().size());
  }

  static bool constants(const Json& schema, const Json& value) {
    if (const Json* type = schema.find("type")) {
      if (type->is_string() && !is_type(type->as_string(), value)) return false;
      if (type->is_array() &&
          std::none_of(type->items().begin(), type->items().end(),
                       [&](const Json& one) { return is_type(one.as_string(), value); }))
        return false;
    }
    const Json* only = schema.find("const");
    if (only != nullptr && !equal(*only, value)) return false;
    const Json* list = schema.find("enum");
    return list == nullptr || std::any_of(list->items().begin(), list->items().end(),
                                          [&](const Json& one) { return equal(one, value); });
  }

  static bool numbers(const Json& schema, const Json& value) {
    if (!value.is_number()) return true;
    const double x = *value.as_double();
    const auto bound = [&](const char* name, double otherwise) {
      const Json* found = schema.find(name);
      return found != nullptr ? *found->as_double() : otherwise;
    };
    const Json* step = schema.find("multipleOf");
    return x >= bound("minimum", -INFINITY) && x <= bound("maximum", INFINITY) &&
           x > bound("exclusiveMinimum", -INFINITY) && x < bound("exclusiveMaximum", INFINITY) &&
           (step == nullptr || is_multiple(value.as_string(), *step->as_int()));
  }

  // Digit by digit: a double holds 53 bits.
  static bool is_multiple(const std::string& text, int64_t step) {
    int64_t rest = 0;
    for (const char c : text) {
      if (c == '.' || c == 'e' || c == 'E') return false;
      if (c != '-') rest = (rest * 10 + (c - '0')) % step;
    }
    return rest == 0;
  }

  static bool in_bounds(const Json& schema, size_t count, const char* min, const char* max) {
    const Json* low = schema.find(min);
    const Json* high = schema.find(max);
    return (low == nullptr || count >= *low->as_unsigned()) &&
           (high == nullptr || count <= *high->as_unsigned());
  }

  static bool matches(const std::string& pattern, const std::string& text) {
    return std::regex_search(text, std::regex(pattern));
  }

  static bool strings(const Json& schema, const Json& value) {
    if (!value.is_string()) return true;
    const Json* pattern = schema.find("pattern");
    return in_bounds(schema, code_points_of(value.as_string()), "minLength", "maxLength") &&
           (pattern == nullptr || matches(pattern->as_string(), value.as_string()));
  }

  bool arrays(const Json& schema, const Json& value) const {
    if (!value.is_array()) return true;
    if (!in_bounds(schema, value.items().size(), "minItems", "maxItems")) return false;
    const Json* first = schema.find("prefixItems");
    const Json* rest = schema.find("items");
    const size_t num_first = first != nullptr ? first->items().size() : 0;
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (i < num_first ? !valid(first->items()[i], value.items()[i])
                        : rest != nullptr && !valid(*rest, value.items()[i]))
        return false;
    }
    return true;
  }

  bool objects(const Json& schema, const Json& value) const {
    if (!value.is_object()) return true;
    if (!in_bounds(schema, value.members().size(), "minProperties", "maxProperties")) return false;
    if (const Json* required = schema.find("required"))
      for (const Json& name : required->items())
        if (value.find(name.as_string()) == nullptr) return false;
    const Json* properties = schema.find("properties");
    const Json* patterns = schema.find("patternProperties");
    const Json* others = schema.find("additionalProperties");
    const Json* names = schema.find("propertyNames");
    for (const auto& [name, member] : value.members()) {
      const Json* property = properties != nullptr ? properties->find(name) : nullptr;
      bool is_known = property != nullptr;
      if (is_known && !valid(*property, member)) return false;
      for (size_t i = 0; patterns != nullptr && i < patterns->members().size(); ++i) {
        if (!matches(patterns->members()[i].first, name)) continue;
        is_known = true;
        if (!valid(patterns->members()[i].second, member)) return false;
      }
      if (!is_known && others != nullptr && !valid(*others, member)) return false;
      if (names != nullptr && !valid(*names, Json::string(name))) return false;
    }
    return true;
  }

  const Json& root_;
};

class RandomSchema {
 public:
  explicit RandomSchema(uint32_t seed) : random_(seed) {}

  Json make() {
    Json schema = schema_of(3);
    if (schema.is_bool()) schema = Json::object();
    Json defs = Json::object();
    defs.set("d0", schema_of(2));
    // Behind an array, so that it may refer to itself.
    Json list = Json::object();
    list.set("type", Json::string("array"));
    list.set("items", schema_of(2));
    defs.set("d1", std::move(list));
    schema.set("$defs", std::move(defs));
    return schema;
  }

 private:
  uint32_t pick(uint32_t count) { return random_() % count; }
  Json number(int low, int high) {
    return Json::integer(low + static_cast<int>(pick(static_cast<uint32_t>(high - low + 1))));
  }

  Json schema_of(int depth) {
    const uint32_t kind = pick(depth > 0 ? 14 : 7);
    Json schema = Json::object();
    switch (kind) {
      case 0:
        if (pick(4) == 0) return Json::boolean(true);
        schema.set("type", Json::string(pick(2) == 0 ? "boolean" : "null"));
        return schema;
      case 1:
        return number_schema();
      case 2:
      case 3:
        return string_schema();
      case 4:
        schema.set("enum", Json::array({Json::string("ab"), Json::integer(1), Json(),
                                        Json::string("é\"")}));
        return schema;
      case 5:
        schema.set("type", Json::array({Json::string("integer"), Json::string("string")}));
        if (pick(2) == 0) schema.set("maxLength", number(0, 3));
        if (pick(2) == 0) schema.set("minimum", number(-3, 3));
        return schema;
      case 6:
        schema.set("const", pick(2) == 0 ? Json::string("a") : Json::array({Json::integer(12)}));
        return schema;
      case 7:
      case 8:
        return array_schema(depth);
      case 9:
      case 10:
      case 11:
        return object_schema(depth);
      case 12:
        return combined_schema(depth);
      default:
        schema.set("$ref", Json::string(pick(2) == 0 ? "#/$defs/d0" : "#/$defs/d1"));
        return schema;
    }
  }

  Json number_schema() {
    Json schema = Json::object();
    schema.set("type", Json::string(pick(2) == 0 ? "integer" : "number"));
    const auto bound = [this] {
      return pick(2) == 0 ? number(-120, 120)
                          : Json::real((static_cast<double>(pick(2000)) - 1000) / 8);
    };
    if (pick(2) == 0) schema.set(pick(2) == 0 ? "minimum" : "exclusiveMinimum", bound());
    if (pick(2) == 0) schema.set(pick(2) == 0 ? "maximum" : "exclusiveMaximum", bound());
    if (pick(5) == 0) schema.set("multipleOf", number(1, 12));
    return schema;
  }

  // Such that bytes for characters make no difference: the validator's expressions read bytes.
  Json string_schema() {
    Json schema = Json::object();
    schema.set("type", Json::string("string"));
    if (pick(3) == 0) schema.set("minLength", number(0, 3));
    if (pick(3) == 0) schema.set("maxLength", number(3, 6));
    static const char* const kPatterns[] = {"^[a-c]+$",        "b",        "^a|1$",
                                            "^(ab|c\"){1,3}$", "^\\w* ?$", "^[^a]"};
    if (pick(3) == 0) schema.set("pattern", Json::string(kPatterns[pick(6)]));
    return schema;
  }

  Json array_schema(int depth) {
    Json schema = Json::object();
    schema.set("type", Json::string("array"));
    if (pick(4) != 0) schema.set("items", schema_of(depth - 1));
    if (pick(3) == 0) {
      Json first = Json::array();
      for (uint32_t i = 0; i <= pick(3); ++i) first.push(schema_of(depth - 1));
      schema.set("prefixItems", std::move(first));
    }
    if (pick(3) == 0) schema.set("minItems", number(0, 3));
    if (pick(3) == 0) schema.set("maxItems", number(2, 4));
    return schema;
  }

  Json object_schema(int depth) {
    static const char* const kNames[] = {"a", "ab", "abc", "b", "é", "x\"y", "hello world"};
    Json schema = Json::object();
    if (pick(4) != 0) schema.set("type", Json::string("object"));
    Json required = Json::array();
    if (pick(4) != 0) {
      Json properties = Json::object();
      for (uint32_t i = pick(4); i > 0; --i) {
        const std::string name = kNames[pick(7)];
        if (properties.find(name) == nullptr && pick(2) == 0) required.push(Json::string(name));
        properties.set(name, schema_of(depth - 1));
      }
      schema.set("properties", std::move(properties));
    } else if (pick(2) == 0) {
      schema.set("minProperties", number(0, 2));
      schema.set("maxProperties", number(1, 4));
    }
    if (pick(8) == 0) required.push(Json::string("zz"));
    if (!required.items().empty()) schema.set("required", std::move(required));
    if (pick(2) == 0)
      schema.set("additionalProperties",
                 pick(2) == 0 ? Json::boolean(false) : schema_of(depth - 1));
    if (pick(5) == 0) {
      Json patterns = Json::object();
      patterns.set("^b", schema_of(depth - 1));
      if (pick(2) == 0) patterns.set("^a.*c$", schema_of(depth - 1));
      schema.set("patternProperties", std::move(patterns));
    }
    if (pick(6) == 0) schema.set("propertyNames", string_schema());
    return schema;
  }

  Json combined_schema(int depth) {
    static const char* const kWords[] = {"anyOf", "allOf", "oneOf"};
    Json schema = Json::object();
    const uint32_t which = pick(3);
    Json list = Json::array();
    for (uint32_t i = 0; i <= 1 + pick(2); ++i) {
      Json one = schema_of(depth - 1);
      if (which == 2 && one.is_object() && one.find("type") == nullptr)
        one.set("type", Json::string(i == 0 ? "object" : "string"));
      list.push(std::move(one));
    }
    schema.set(kWords[which], std::move(list));
    if (pick(3) == 0) schema.set("minLength", number(0, 2));
    return schema;
  }

  std::mt19937 random_;
};

// A random answer along the masks; empty if it does not end soon.
std::string random_answer(const std::shared_ptr<const Program>& program, std::mt19937& random) {
  const Vocabulary& vocabulary = program->vocabulary();
  Matcher matcher(program);
  std::vector<uint64_t> mask(vocabulary.num_words());
  std::string text;
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(matcher.fill(mask));
    EXPECT_EQ(has_bit(mask, kEnd), matcher.can_end());
    if (matcher.can_end() && (random() % 3 == 0 || i > 20)) return text;
    std::vector<int32_t> allowed;
    for (int32_t id = 2; id < static_cast<int32_t>(vocabulary.size()); ++id)
      if (has_bit(mask, id)) allowed.push_back(id);
    if (allowed.empty()) {
      EXPECT_TRUE(matcher.can_end()) << text;
      return text;
    }
    int32_t id = allowed[random() % allowed.size()];
    // What closes comes more often than by chance, and later as soon as it can.
    for (const char closing : {'"', '}', ']', '0'})
      if ((i > 25 || random() % 4 == 0) && has_bit(mask, 3 + closing)) id = 3 + closing;
    EXPECT_TRUE(matcher.accept(id));
    text += vocabulary.bytes(id);
  }
  return "";
}

// A value that a schema without `allOf` is likely to allow, with members in its order.
class RandomValue {
 public:
  RandomValue(const Json& root, std::mt19937& random) : root_(root), random_(random) {}

  Json make(const Json& schema, int depth) {
    if (const Json* ref = schema.find("$ref"))
      return depth > 6 ? Json()
                       : make(*root_.find("$defs")->find(ref->as_string().substr(8)), depth + 1);
    if (const Json* only = schema.find("const")) return *only;
    if (const Json* list = schema.find("enum")) return list->items()[pick(list->items().size())];
    for (const char* name : {"anyOf", "oneOf"})
      if (const Json* list = schema.find(name))
        return make(list->items()[pick(list->items().size())], depth + 1);
    const Json* type = schema.find("type");
    std::string name = type == nullptr ? "object" : type->is_string() ? type->as_string() : "";
    if (name.empty()) name = type->items()[pick(type->items().size())].as_string();
    if (name == "null") return {};
    if (name == "boolean") return Json::boolean(pick(2) == 0);
    if (name == "string") {
      static const char* const kTexts[] = {"", "a", "ab", "cc", "日本語", "a b", "c\"", "abc1"};
      return Json::string(kTexts[pick(8)]);
    }
    if (name == "integer") return Json::integer(static_cast<int64_t>(pick(260)) - 130);
    if (name == "number") return Json::real(static_cast<double>(pick(2100)) / 8 - 130);
    return name == "array" ? array(schema, depth) : object(schema, depth);
  }

 private:
  size_t pick(size_t count) { return random_() % count; }

  Json array(const Json& schema, int depth) {
    Json out = Json::array();
    const Json* first = schema.find("prefixItems");
    const Json* rest = schema.find("items");
    const size_t count = depth > 6 ? 0 : pick(4);
    for (size_t i = 0; i < count; ++i) {
      const bool is_first = first != nullptr && i < first->items().size();
      static const Json kAny = Json::object();
      out.push(make(is_first ? first->items()[i] : rest != nullptr ? *rest : kAny, depth + 1));
    }
    return out;
  }

  Json object(const Json& schema, int depth) {
    Json out = Json::object();
    const Json* required = schema.find("required");
    const auto is_required = [&](const std::string& name) {
      return required != nullptr &&
             std::any_of(required->items().begin(), required->items().end(),
                         [&](const Json& one) { return one.as_string() == name; });
    };
    if (const Json* properties = schema.find("properties"))
      for (const auto& [name, property] : properties->members())
        if (is_required(name) || pick(2) == 0) out.set(name, make(property, depth + 1));
    if (is_required("zz")) out.set("zz", other(schema, depth));
    if (depth < 6 && pick(3) == 0 && out.find("bz") == nullptr) out.set("bz", other(schema, depth));
    return out;
  }

  Json other(const Json& schema, int depth) {
    const Json* others = schema.find("additionalProperties");
    return others != nullptr && others->is_object() ? make(*others, depth + 1) : Json::integer(1);
  }

  const Json& root_;
  std::mt19937& random_;
};

std::string pretty(const Json& value, size_t indent) {
  if ((!value.is_array() && !value.is_object()) ||
      (value.items().empty() && value.members().empty()))
    return value.dump();
  const std::string line = "\n" + std::string(indent + 2, ' ');
  std::string out = value.is_array() ? "[" : "{";
  bool is_first = true;
  const auto separate = [&] {
    if (!is_first) out += ",";
    is_first = false;
    out += line;
  };
  for (const Json& item : value.items()) {
    separate();
    out += pretty(item, indent + 2);
  }
  for (const auto& [name, member] : value.members()) {
    separate();
    out += json_quote(name) + ": " + pretty(member, indent + 2);
  }
  return out + "\n" + std::string(indent, ' ') + (value.is_array() ? "]" : "}");
}

bool program_allows(const std::shared_ptr<const Program>& program, const std::string& text) {
  Matcher matcher(program);
  for (const char byte : text)
    if (!matcher.accept(3 + static_cast<uint8_t>(byte))) return false;
  return matcher.can_end();
}

struct Counts {
  int refused = 0;
  int unfinished = 0;
  int answers = 0;
  int values = 0;
};

void check_answers(const Json& schema, const std::shared_ptr<const Program>& program,
                   std::mt19937& random, Counts& counts) {
  for (int i = 0; i < 2; ++i) {
    const std::string text = random_answer(program, random);
    if (text.empty()) {
      ++counts.unfinished;
      continue;
    }
    const auto value = Json::parse(text);
    ASSERT_TRUE(value.has_value()) << text << ": " << value.error().message;
    // The same name twice cannot be excluded; it may break a count of members.
    if (!Json::parse(text, {.max_depth = 128, .max_values = 10000, .repeated_keys_allowed = false}))
      continue;
    ASSERT_TRUE(Validator(schema).valid(schema, *value)) << text;
    ++counts.answers;
  }
}

void check_values(const Json& schema, const std::shared_ptr<const Program>& program,
                  std::mt19937& random, Counts& counts) {
  if (schema.dump().find("allOf") != std::string::npos) return;
  for (int i = 0; i < 4; ++i) {
    const Json value = RandomValue(schema, random).make(schema, 0);
    if (!Validator(schema).valid(schema, value)) continue;
    ++counts.values;
    const std::string text = i % 2 == 0 ? value.dump() : pretty(value, 0);
    ASSERT_TRUE(program_allows(program, text)) << text;
  }
}

TEST(GrammarSchemaRandom, AnswersAreValidAndValidDocumentsAreAnswers) {
  const auto vocabulary = small_vocabulary();
  const int runs = testing::num_runs(1500);
  Counts counts;
  const int first = testing::first_seed();
  for (int run = first; run < first + runs && !HasFatalFailure(); ++run) {
    const Json schema = RandomSchema(static_cast<uint32_t>(run)).make();
    SCOPED_TRACE("seed " + std::to_string(run) + ": " + schema.dump());
    const auto grammar = from_json_schema(schema);
    if (!grammar) {
      // Alternatives that are not disjoint, names of two patterns, nothing allowed: all by chance.
      EXPECT_NE(grammar.error().message.find("schema at #"), std::string::npos)
          << grammar.error().message;
      ++counts.refused;
      continue;
    }
    ProgramOptions options;
    options.max_eager_work = run % 2 == 0 ? 20000 : 0;
    const auto program = Program::compile(*grammar, vocabulary, options);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    std::mt19937 random(static_cast<uint32_t>(run));
    check_answers(schema, *program, random, counts);
    check_values(schema, *program, random, counts);
  }
  EXPECT_LT(counts.refused, runs / 3);
  EXPECT_LT(counts.unfinished, runs / 5);
  EXPECT_GT(counts.answers, runs);
  EXPECT_GT(counts.values, runs / 2);
  RecordProperty("refused", counts.refused);
  RecordProperty("unfinished", counts.unfinished);
  RecordProperty("answers", counts.answers);
  RecordProperty("values", counts.values);
  std::printf("refused %d unfinished %d answers %d values %d\n", counts.refused, counts.unfinished,
              counts.answers, counts.values);
}

}  // namespace
}  // namespace stoker::grammar
