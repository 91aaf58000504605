// Any bytes as the text of a plan. What is taken is what would be written, and becomes a plan or
// names the level that this processor lacks.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kernels/measured_plan.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker::kernels;  // NOLINT(google-build-using-namespace): of this function only
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto measured = parse_plan(text);
  if (!measured) {
    CHECK(!measured.error().message.empty(), "told");
    return 0;
  }
  CHECK(plan_text(*measured) == text, "one text for each plan");
  const auto plan = kernel_plan_of(*measured);
  CHECK(plan ? plan->rest != nullptr : !plan.error().message.empty(), "a plan, or why not");
  return 0;
}
