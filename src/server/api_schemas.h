// JSON schemas of what clients send, for /openapi.json. What a field takes has one text, in its row
// of field_table.cc; that text has one schema here, whichever rows have it.
#pragma once

#include <span>
#include <string_view>

namespace stoker {

/// A schema that has a name in the document, under "#/components/schemas/". JSON text.
struct NamedSchema {
  const char* name;
  const char* schema;
};

/// Those that others refer to, and bodies that no table of fields describes.
std::span<const NamedSchema> named_schemas();

/// The schema of what a supported field takes, by that text of its row: JSON text; null where the
/// text has none.
const char* schema_of(std::string_view takes);

}  // namespace stoker
