// Any bytes as EBNF: either an error with an offset, or a grammar of which the masks are exact.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/grammar_run.h"
#include "grammar/ebnf.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;  // NOLINT(google-build-using-namespace): the entry point alone
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  grammar::fuzz_source(grammar::from_ebnf(text), {data, size});
  return 0;
}
