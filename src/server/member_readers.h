// What readers of a body ask of one value or of a member of an object, and how they tell what is
// wrong with it: types are strict, errors name the place.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "stoker/result.h"

namespace stoker {

/// "param[index]": the place of an item.
std::string item_of(const std::string& param, size_t index);

/// The member of that name, or null where it is absent or null.
const Json* find_member(const Json& object, const char* name);

/// A member that must be a string. `param` is the place of the object.
Result<std::string> required_string(const Json& object, const char* name, const std::string& param);

/// A member that is a string, absent or null. `param` is the place of the object.
Result<std::optional<std::string>> optional_string(const Json& object, const char* name,
                                                   const std::string& param);

/// A member that must be an object. `param` is the place of the object that has it.
Result<const Json*> required_object(const Json& object, const char* name, const std::string& param);

/// A member that is a boolean, absent or null. `param` is the place of the object.
Result<std::optional<bool>> optional_bool(const Json& object, const char* name,
                                          const std::string& param);

/// A member that is an integer from `least` to `most`; 0 where it is absent or null. `param` is the
/// place of the object.
Result<int32_t> int_or_0(const Json& object, const char* name, const std::string& param,
                         int32_t least, int32_t most);

/// A wrong value: "<param>: expected <expected>, found <what it is>".
Error wrong_value(const std::string& param, const std::string& expected, const Json& found);

/// Something known but not built: "<param>: <what> not supported yet".
Error not_supported(const std::string& param, const std::string& what);

/// A short description of a value for an error: its kind, and small scalars themselves.
std::string describe(const Json& value);

bool is_among(std::span<const std::string_view> list, std::string_view text);

/// A string that is one of some words; at least two of them. `param` is its place.
Result<std::string> word_of(const Json& value, const std::string& param,
                            std::span<const std::string_view> words);

}  // namespace stoker
