// Ten thousand steps take no more memory at their end than soon after their beginning.
#include "support/steady.h"

#include <gtest/gtest.h>

#include "api/loaded_model.h"
#include "support/checkpoint.h"

namespace stoker {
namespace {

// Buffers that come to their largest late; a byte lost in each step would be more.
constexpr int64_t kLateBytes = 4 << 10;
// Pages that the allocator keeps for the next request.
constexpr int64_t kKeptBytes = 256 << 10;

TEST(Steady, MemoryOfTenThousandSteps) {
  const auto model = LoadedModel::load(testing::kDemoCheckpoint, {.weights = {.pack = false}});
  ASSERT_TRUE(model) << model.error().message;
  const auto tenths = testing::run_steadily((*model)->model(), 2, 10'000);
  ASSERT_TRUE(tenths) << tenths.error().message;
  for (const testing::Tenth& tenth : *tenths) {
    EXPECT_GT(tenth.num_finished, 10) << "requests come and go";
    SCOPED_TRACE(&tenth - tenths->data());
    if (&tenth < &(*tenths)[2]) continue;
    EXPECT_LE(tenth.resident_bytes, (*tenths)[1].resident_bytes + kKeptBytes);
    EXPECT_LE(tenth.heap_bytes, (*tenths)[1].heap_bytes + kLateBytes);
  }
}

}  // namespace
}  // namespace stoker
