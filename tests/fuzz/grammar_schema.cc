// Any bytes as a JSON schema, and as the parameters of a tool: either an error with a place, or a
// grammar of which the masks are exact.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "fuzz/grammar_run.h"
#include "grammar/calls.h"
#include "grammar/json_schema.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;  // NOLINT(google-build-using-namespace): the entry point alone
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schema = Json::parse(text, {.max_depth = 64, .max_values = 2000});
  if (!schema) return 0;
  const auto grammar = grammar::from_json_schema(*schema, {.any_whitespace = size % 2 == 0});
  if (grammar) grammar::fuzz_run(*grammar, {data, size});
  if (!grammar) CHECK(!grammar.error().message.empty(), "errors say something");
  const grammar::Tool tool{"f", &*schema};
  const auto calls = grammar::from_calls({&tool, 1});
  if (calls) grammar::fuzz_run(*calls, {data, size});
  return 0;
}
