// A JSON schema taken apart: what must hold at one place of a document, as a list of schemas that
// all hold (`allOf`, `$ref` beside other keywords) and of groups of which one does (`anyOf`,
// `oneOf`). Checks that every keyword is known; writing the grammar is json_schema.cc's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "stoker/result.h"

namespace stoker::grammar {

/// Kinds of values, as bits. A number is integral or not.
enum Types : uint8_t {
  kNoType = 0,
  kNull = 1,
  kBoolean = 2,
  kIntegral = 4,
  kFractional = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAnyType = 127,
};

/// A schema, and where it stands. Borrows the document.
struct Part {
  const Json* schema = nullptr;
  std::string pointer;  ///< such as "#/properties/a"
};

/// What holds at one place. `own` are objects of which the keywords for references and
/// combinations are done with.
struct Parts {
  struct Group {
    std::vector<Part> branches;
    bool exactly_one = false;
    std::string pointer;
  };
  std::vector<Part> own;
  std::vector<Group> groups;
  std::vector<std::string> chosen;  ///< pointers of groups of which a branch is in `own`
  bool nothing_holds = false;       ///< a schema `false`
  std::string false_at;             ///< where it stands
};

/// Reads one document. Errors name the JSON pointer.
class SchemaReader {
 public:
  explicit SchemaReader(const Json& document) : document_(document) {}

  /// Adds a schema to what holds. Errors: kUnsupported for a keyword, kInvalidArgument for one
  /// whose value is wrong, or a reference that leads nowhere or to itself.
  Result<void> add(const Part& part, Parts& out);

  /// Fails unless no value can be of two branches of a group, as far as their types, constants and
  /// constant properties say.
  Result<void> check_exclusive(const Parts::Group& group);

 private:
  struct Outline;

  Result<void> add_at(const Part& part, Parts& out, int depth);
  Result<void> check_keywords(const Part& part);
  Result<Part> resolve(const Part& part, const Json& reference) const;
  Result<Outline> outline_of(const Part& part, int depth);

  const Json& document_;
  std::set<const Json*> checked_;
  std::vector<const Json*> active_;  // references that are being followed
};

/// "schema at #/a: message".
Error schema_error(ErrorCode code, const std::string& pointer, const std::string& message);
/// A pointer one step further.
std::string child_pointer(const std::string& pointer, std::string_view step);

/// Whether two values are the same to JSON Schema: 1 and 1.0 are, members have no order.
bool same_value(const Json& a, const Json& b);
/// The types that `type` allows. Error: kInvalidArgument.
Result<uint8_t> types_of(const Part& part);
/// The type of a value.
uint8_t type_of(const Json& value);
/// The values of `enum` or `const`; none without either.
std::optional<std::vector<const Json*>> constants_of(const Json& schema);

}  // namespace stoker::grammar
