#include "kernels/tune.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stoker::kernels {
namespace {

constexpr int64_t kMemory = int64_t{8} << 20;

TEST(Tune, TheFastestIsChosenIfItIsClearlyFaster) {
  EXPECT_EQ(choose_level({100, 50, 40}, Isa::kAvx2), Isa::kAvx512Bf16);
  EXPECT_EQ(choose_level({100, 40, 50}, Isa::kAvx2), Isa::kAvx512);
  EXPECT_EQ(choose_level({100, 101, 98}, Isa::kAvx2), Isa::kAvx2) << "as fast as makes no odds";
  EXPECT_EQ(choose_level({100, 101, 98}, Isa::kAvx512), Isa::kAvx512);
  EXPECT_EQ(choose_level({100, 101, 96}, Isa::kAvx512), Isa::kAvx512Bf16);
  EXPECT_EQ(choose_level({100, 0, 0}, Isa::kAvx2), Isa::kAvx2) << "the only one that there is";
  EXPECT_EQ(choose_level({100, 90, 0}, Isa::kAvx512Bf16), Isa::kAvx512);
  EXPECT_EQ(choose_level({0, 0, 0}, Isa::kAvx512), Isa::kAvx512);
}

TEST(Tune, WithoutTimeNothingIsMeasured) {
  WorkerPool pool(1);
  for (const Isa isa : usable_levels()) {
    const KernelPlan start = plan_of(isa);
    const MeasuredPlan plan = measure_plan(pool, start, std::chrono::seconds(0), kMemory);
    EXPECT_EQ(plan_text(plan), plan_text(unmeasured(start)));
  }
}

// However much the time suffices for: what is measured is measured whole, and chosen by its times.
TEST(Tune, WhatIsMeasuredIsChosenByItsTimes) {
  const std::vector<Isa> usable = usable_levels();
  const KernelPlan start = plan_of(usable.front());
  for (const int threads : {1, 3}) {
    WorkerPool pool(threads);
    double told = 0;
    const MeasuredPlan plan =
        measure_plan(pool, start, std::chrono::milliseconds(300), kMemory, [&](double fraction) {
          EXPECT_GE(fraction, told);
          EXPECT_LT(fraction, 1);
          told = fraction;
        });
    for (const MeasuredLevel& item : plan) {
      const auto measured = std::ranges::count_if(item.ns, [](int64_t ns) { return ns > 0; });
      EXPECT_TRUE(measured == 0 || measured == static_cast<int64_t>(usable.size()));
      EXPECT_EQ(item.chosen, choose_level(item.ns, usable.front()));
    }
    EXPECT_TRUE(kernel_plan_of(plan));
  }
}

TEST(Tune, MeasuresOnABoundedPartOfTheMemory) {
  EXPECT_GE(tune_memory_bytes(), int64_t{8} << 20);
  EXPECT_LE(tune_memory_bytes(), int64_t{256} << 20);
}

}  // namespace
}  // namespace stoker::kernels
