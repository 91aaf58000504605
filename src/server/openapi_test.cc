// The document of /openapi.json: it has what the tables have, and its schemas allow what the
// readers take.
#include "server/openapi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "base/json.h"
#include "server/fields.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::Contains;
using ::testing::Not;

Json parse_document(const std::string& text) {
  auto document = Json::parse(text);
  EXPECT_TRUE(document.has_value()) << text.substr(0, 200);
  return document ? *std::move(document) : Json();
}

// The document of a server where all routes are on, and everything needs a key.
Json full_document() {
  ServerOptions options;
  options.tokenizer_info = true;
  const std::vector<ApiKey> keys = {{"a", "secret"}};
  return parse_document(openapi_json(options, {KeyRing(keys), KeyRing(keys), true, true, true}));
}

Json least_document() {
  ServerOptions options;
  options.page = false;
  return parse_document(openapi_json(options, {}));
}

// The value at a place, whose steps must be there.
const Json& at(const Json& value, std::initializer_list<std::string_view> steps) {
  static const Json kNone;
  const Json* found = &value;
  for (const std::string_view step : steps) {
    found = found->find(step);
    EXPECT_NE(found, nullptr) << step;
    if (found == nullptr) return kNone;
  }
  return *found;
}

std::set<std::string> names_of(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.members()) names.insert(name);
  return names;
}

std::set<std::string> methods_of(Method method) {
  switch (method) {
    case Method::kGet:
      return {"get"};
    case Method::kPost:
      return {"post"};
    case Method::kGetOrPost:
      return {"get", "post"};
    case Method::kGetOrDelete:
      return {"get", "delete"};
  }
  return {};
}

// As much of JSON Schema as the tables of schemas have.
class SchemaReader {
 public:
  explicit SchemaReader(const Json& document) : schemas_(at(document, {"components", "schemas"})) {}

  // Whether a schema allows a value.
  bool allows(const Json& schema, const Json& value) const {
    for (const auto& [keyword, is] : schema.members()) {
      if (!holds(keyword, is, schema, value)) return false;
    }
    return true;
  }

 private:
  bool holds(const std::string& keyword, const Json& is, const Json& schema,
             const Json& value) const {
    if (keyword == "$ref") {
      const std::string name = is.as_string().substr(std::string("#/components/schemas/").size());
      return allows(at(schemas_, {name}), value);
    }
    if (keyword == "type") return is_of_types(is, value);
    if (keyword == "anyOf" || keyword == "enum") {
      return std::any_of(is.items().begin(), is.items().end(), [&](const Json& one) {
        return keyword == "enum" ? one.dump() == value.dump() : allows(one, value);
      });
    }
    if (keyword == "const") return is.dump() == value.dump();
    if (value.is_number()) return holds_of_number(keyword, is, value);
    if (value.is_string()) return holds_of_text(keyword, is, value.as_string());
    if (value.is_array()) return holds_of_array(keyword, is, value);
    return !value.is_object() || holds_of_object(keyword, is, schema, value);
  }

  static bool is_of_types(const Json& is, const Json& value) {
    if (is.is_string()) return is_of_type(is.as_string(), value);
    return std::any_of(is.items().begin(), is.items().end(),
                       [&](const Json& one) { return is_of_type(one.as_string(), value); });
  }

  static bool is_of_type(const std::string& type, const Json& value) {
    if (type == "integer")
      return value.is_number() &&
             value.as_string().find_first_not_of("-0123456789") == std::string::npos;
    if (type == "null") return value.is_null();
    if (type == "array" || type == "object" || type == "integer")
      return value.kind_name() == "an " + type;
    return value.kind_name() == "a " + type;
  }

  // Integers of 64 bits are compared as they are.
  static bool is_at_most(const Json& a, const Json& b) {
    if (a.as_int() && b.as_int()) return *a.as_int() <= *b.as_int();
    return a.as_double() <= b.as_double();
  }

  static bool holds_of_number(const std::string& keyword, const Json& is, const Json& value) {
    if (keyword == "minimum") return is_at_most(is, value);
    if (keyword == "maximum") return is_at_most(value, is) && (!is.as_int() || !is_huge(value));
    return keyword != "exclusiveMinimum" || !is_at_most(value, is);
  }

  // An integer that no 64 bits have, which is equal to one that they have as a double.
  static bool is_huge(const Json& value) { return is_of_type("integer", value) && !value.as_int(); }

  static bool holds_of_text(const std::string& keyword, const Json& is, const std::string& text) {
    if (keyword == "minLength") return text.size() >= is.as_unsigned();
    if (keyword == "maxLength") return text.size() <= is.as_unsigned();
    return keyword != "pattern" || std::regex_search(text, std::regex(is.as_string()));
  }

  bool holds_of_array(const std::string& keyword, const Json& is, const Json& value) const {
    if (keyword == "minItems") return value.items().size() >= is.as_unsigned();
    if (keyword == "maxItems") return value.items().size() <= is.as_unsigned();
    return keyword != "items" || std::all_of(value.items().begin(), value.items().end(),
                                             [&](const Json& item) { return allows(is, item); });
  }

  bool holds_of_object(const std::string& keyword, const Json& is, const Json& schema,
                       const Json& value) const {
    if (keyword == "maxProperties") return value.members().size() <= is.as_unsigned();
    if (keyword == "required")
      return std::all_of(is.items().begin(), is.items().end(),
                         [&](const Json& name) { return value.find(name.as_string()) != nullptr; });
    const Json* properties = schema.find("properties");
    return std::all_of(value.members().begin(), value.members().end(), [&](const auto& member) {
      const auto& [name, item] = member;
      if (keyword == "propertyNames") return allows(is, Json::string(name));
      const Json* own = properties == nullptr ? nullptr : properties->find(name);
      if (keyword == "properties") return own == nullptr || allows(*own, item);
      return keyword != "additionalProperties" || own != nullptr || allows(is, item);
    });
  }

  const Json& schemas_;
};

struct PlaceName {
  FieldPlace place;
  const char* schema;
};

constexpr PlaceName kPlaceNames[] = {
    {kInCompletions, "CompletionRequest"}, {kInChat, "ChatRequest"},
    {kInMessages, "MessagesRequest"},      {kInMessages, "CountTokensRequest"},
    {kInResponses, "ResponsesRequest"},    {kInGenerate, "GenerateRequest"},
    {kInSamplingParams, "SamplingParams"},
};

// Values on both sides of each limit, and of each shape.
constexpr const char* kSamples[] = {
    "true",
    "false",
    "-9223372036854775809",
    "-9223372036854775808",
    "-2147483649",
    "-2147483648",
    "-2.5",
    "-2",
    "-1",
    "-0.5",
    "0",
    "1e-7",
    "1e-6",
    "0.5",
    "1",
    "1.5",
    "2",
    "2.5",
    "20",
    "21",
    "100",
    "101",
    "128",
    "129",
    "1e6",
    "1e7",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    R"("")",
    R"("x")",
    R"("x y")",
    R"("auto")",
    R"("none")",
    R"("required")",
    "[]",
    "[0]",
    "[-1]",
    "[2147483648]",
    "[[0]]",
    "[[]]",
    R"(["x"])",
    R"([""])",
    R"(["x",0])",
    R"([0,"x"])",
    "[true]",
    "[{}]",
    R"(["message.output_text.logprobs"])",
    "{}",
    R"({"1":0})",
    R"({"1":101})",
    R"({"x":0})",
    R"({"x":"y"})",
    R"({"x":1})",
    R"({"type":"text"})",
    R"({"type":"json_object"})",
    R"({"type":"json_schema"})",
    R"({"type":"json_schema","schema":{}})",
    R"({"type":"json_schema","json_schema":{}})",
    R"({"type":"json_schema","json_schema":{"schema":{}}})",
    R"({"type":"enabled"})",
    R"("all")",
    R"("content")",
    R"({"max_pattern_size":8,"min_count":2})",
    R"({"max_pattern_size":8,"min_pattern_size":-1,"min_count":2})",
    R"({"max_pattern_size":1025,"min_count":2})",
    R"({"max_pattern_size":8,"min_count":null,"max_pattern_size":null})",
    R"({"type":"enabled","budget_tokens":1})",
    R"({"type":"enabled","budget_tokens":0})",
    R"({"type":"enabled","display":"omitted"})",
    R"({"type":"enabled","display":"x"})",
    R"({"type":1})",
    R"({"type":"auto"})",
    R"({"type":"tool"})",
    R"({"type":"tool","name":"f"})",
    R"({"type":"function"})",
    R"({"type":"function","name":"f"})",
    R"({"type":"function","function":{"name":"f"}})",
    R"({"type":"function","function":{}})",
    R"({"json":{}})",
    R"({"json":1})",
    R"({"regex":"a"})",
    R"({"regex":""})",
    R"({"choice":["a"]})",
    R"({"choice":[]})",
    R"({"grammar":1})",
    R"({"json_object":true})",
    R"({"json_object":false})",
    R"({"include_usage":true})",
    R"({"include_usage":1})",
    R"({"thinking":true})",
    R"({"thinking":1})",
    R"({"reasoning_effort":"low"})",
    R"({"reasoning_effort":[]})",
    R"({"effort":"low"})",
    R"({"effort":1})",
    R"({"summary":"auto"})",
    R"({"summary":"x"})",
    R"({"context":"all_turns"})",
    R"({"context":"x"})",
    R"({"format":{"type":"text"}})",
    R"({"format":{"type":"json_schema","schema":{}}})",
    R"({"format":{"type":"json_schema"}})",
    R"({"verbosity":"medium"})",
    R"({"verbosity":"low"})",
    R"({"edits":[]})",
    R"({"edits":[{}]})",
    R"({"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})",
    R"({"edits":[{"type":"clear_thinking_20251015","keep":{"type":"all"}}]})",
    R"({"edits":[{"type":"clear_thinking_20251015","keep":"x"}]})",
    R"([{"role":"user"}])",
    R"([{"role":"user","content":"q"}])",
    R"([{"role":"x","content":"q"}])",
    R"([{"role":"user","content":[{"type":"text","text":"q"}]}])",
    R"([{"role":"user","content":[{"type":"text"}]}])",
    R"([{"role":"user","content":[{"type":"input_text","text":"q"}]}])",
    R"([{"role":"system","content":"q"}])",
    R"([{"role":"assistant","content":"q"}])",
    R"([{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]}])",
    R"([{"role":"user","content":[{"type":"thinking","thinking":"t"}]}])",
    R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}])",
    R"([{"role":"user","content":[{"type":"tool_result"}]}])",
    R"([{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}])",
    R"([{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f"}]}])",
    R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}])",
    R"([{"role":"assistant","tool_calls":[{"function":{}}]}])",
    R"([{"role":"tool","content":"r","tool_call_id":1}])",
    R"([{"type":"text","text":"q"}])",
    R"([{"type":"text"}])",
    R"([{"type":"message","role":"user","content":"q"}])",
    R"([{"type":"x"}])",
    R"([{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}])",
    R"([{"type":"function_call","call_id":"1","name":"f"}])",
    R"([{"type":"function_call_output","call_id":"1","output":"r"}])",
    R"([{"type":"function_call_output","call_id":"1"}])",
    R"([{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]}])",
    R"([{"type":"reasoning","content":[{"type":"input_text","text":"t"}]}])",
    R"([{"type":"function","function":{"name":"f"}}])",
    R"([{"type":"function","name":"f"}])",
    R"([{"type":"function"}])",
    R"([{"type":"x","name":"f"}])",
    R"([{"name":"f","input_schema":{}}])",
    R"([{"name":"f"}])",
    R"([{"name":"f g","input_schema":{}}])",
};

// Fields of which the engine judges what the reader takes as it is.
bool is_judged_later(const Field& field) {
  static const std::set<std::string> kLater = {"bad_words", "thinking", "reasoning_effort",
                                               "reasoning"};
  return kLater.contains(field.name);
}

void expect_as_read(const SchemaReader& reader, const Field& field, const Json& schema) {
  for (const char* sample : kSamples) {
    const Json value = *Json::parse(sample);
    RequestDraft draft;
    const bool is_read = read_field(field, value, draft).has_value();
    const bool is_allowed = reader.allows(schema, value);
    if (is_judged_later(field) && is_read) continue;
    EXPECT_EQ(is_allowed, is_read) << field.name << " " << sample << " " << schema.dump();
  }
}

TEST(OpenApi, HasEveryRouteWithItsMethods) {
  const Json document = full_document();
  EXPECT_EQ(at(document, {"openapi"}).as_string(), "3.1.0");
  const Json& paths = at(document, {"paths"});
  EXPECT_EQ(paths.members().size(), route_rows().size());
  for (const RouteRow& row : route_rows()) {
    const Json& methods = at(paths, {row.path});
    EXPECT_EQ(names_of(methods), methods_of(row.method)) << row.path;
    for (const auto& [method, operation] : methods.members()) {
      const bool has_media = method == "post" && row.media_type != nullptr;
      EXPECT_EQ(operation.find("requestBody") != nullptr, has_media) << row.path;
      if (has_media) at(operation, {"requestBody", "content", row.media_type});
      const bool has_key = row.access != Access::kAll || row.path == "/metrics";
      EXPECT_EQ(operation.find("security") != nullptr, has_key) << row.path;
      EXPECT_EQ(at(operation, {"responses"}).find("401") != nullptr, has_key) << row.path;
    }
  }
}

TEST(OpenApi, LeavesOutWhatIsOff) {
  const Json document = least_document();
  const std::set<std::string> paths = names_of(at(document, {"paths"}));
  EXPECT_THAT(paths, Contains("/v1/chat/completions"));
  for (const char* off : {"/", "/tokenizer_info", "/v1/files", "/v1/batches/{id}", "/pause"})
    EXPECT_THAT(paths, Not(Contains(off)));
  EXPECT_EQ(at(document, {"paths", "/v1/models", "get"}).find("security"), nullptr);
}

TEST(OpenApi, HasTheSupportedFieldsOfEachPlace) {
  const Json document = least_document();
  for (const PlaceName& place : kPlaceNames) {
    std::set<std::string> supported;
    for (const Field& field : request_fields()) {
      if (field.is_in(place.place) && field.read != nullptr) supported.insert(field.name);
    }
    EXPECT_EQ(names_of(at(document, {"components", "schemas", place.schema, "properties"})),
              supported)
        << place.schema;
  }
  EXPECT_EQ(at(document, {"components", "schemas", "MessagesRequest", "required"}).dump(),
            R"(["messages","max_tokens"])");
}

TEST(OpenApi, AllowsWhatTheReadersTake) {
  const Json document = least_document();
  const SchemaReader reader(document);
  for (const PlaceName& place : kPlaceNames) {
    if (place.place == kInGenerate) continue;  // its SamplingParams are a place of their own
    const Json& properties = at(document, {"components", "schemas", place.schema, "properties"});
    for (const auto& [name, schema] : properties.members())
      expect_as_read(reader, *find_field(place.place, name), schema);
  }
}

TEST(OpenApi, TellsFailuresInTheFormOfTheRoute) {
  const Json document = least_document();
  const auto schema_at = [&](const char* path, const char* status) {
    return at(document, {"paths", path, "post", "responses", status, "content", "application/json",
                         "schema", "$ref"})
        .as_string();
  };
  EXPECT_EQ(schema_at("/v1/completions", "503"), "#/components/schemas/Error");
  EXPECT_EQ(schema_at("/v1/messages", "529"), "#/components/schemas/MessagesError");
  at(document,
     {"paths", "/v1/completions", "post", "responses", "200", "content", "text/event-stream"});
}

TEST_F(ServerTest, TellsItsDocumentWithoutAKey) {
  ServerOptions options;
  options.api_keys = {{"a", "first"}};
  start(silent, options);
  const HttpReply reply = ask(get("/openapi.json"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  const Json document = parse_document(reply.body);
  EXPECT_EQ(at(document, {"paths", "/v1/models", "get", "security"}).items().size(), 2U);
}

}  // namespace
}  // namespace stoker
