// JSON in the files of a checkpoint: how it is read, and how values are told to people.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "stoker/result.h"

namespace stoker {

/// A JSON object without repeated keys. Errors: kCorruptData, with what was expected and where.
Result<Json> parse_json_object(std::string_view text, size_t max_depth, size_t max_values);

/// A name out of a file for a message: as it is where it is plain, else quoted; cut after some 200
/// bytes.
std::string shown(std::string_view name);

/// A value for a message: its JSON, cut after some 60 bytes; long arrays and objects by their kind.
std::string found(const Json& value);

}  // namespace stoker
