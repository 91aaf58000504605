#include "api/plans.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "api/stored_weights.h"
#include "stoker/tune.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kBrief{1};  // for what is measured not to matter

class PlansTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("stoker_plans_" + std::to_string(::getpid()));
    std::filesystem::remove_all(dir_);
    if (const char* isa = std::getenv("STOKER_ISA")) isa_ = isa;
    ::unsetenv("STOKER_ISA");
    options_.weights.store = dir_;
    options_.log = [this](LogLevel /*level*/, std::string_view line) { log_ += line; };
  }
  void TearDown() override {
    std::filesystem::remove_all(dir_);
    if (!isa_.empty()) ::setenv("STOKER_ISA", isa_.c_str(), 1);
  }

  snapshot::Store open_store() const {
    auto store = stoker::open_store(dir_);
    EXPECT_TRUE(store) << store.error().message;
    return *std::move(store);
  }
  KeptPlan make(int num_threads) const {
    auto kept = make_plan(open_store(), num_threads, kBrief, {});
    EXPECT_TRUE(kept) << kept.error().message;
    return *kept;
  }
  // Puts a text where the plan is.
  void replace(const KeptPlan& kept, std::string_view text) const {
    const snapshot::Store store = open_store();
    ASSERT_TRUE(store.remove(kept.section));
    auto writer = store.create("plans", static_cast<int64_t>(text.size()));
    ASSERT_TRUE(writer && writer->write(0, snapshot::bytes_of(text)));
    ASSERT_TRUE(writer->publish(kept.section.key, 1));
  }
  std::string why_not(int num_threads) const {
    const auto found = find_plan(open_store(), num_threads);
    if (found) return "found";
    EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
    return found.error().message;
  }
  std::string source() {
    const auto plan = engine_plan(2, options_);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan ? plan->source : "";
  }

  std::string dir_;
  std::string isa_;  // of the environment
  std::string log_;
  EngineOptions options_;
};

TEST_F(PlansTest, WhatIsKeptIsFoundForTheseThreads) {
  EXPECT_THAT(why_not(2), HasSubstr("No such file"));
  const KeptPlan kept = make(2);
  const auto found = find_plan(open_store(), 2);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(kernels::plan_text(found->measured), kernels::plan_text(kept.measured));
  EXPECT_THAT(why_not(3), HasSubstr("No such file"));
  make(2);
  EXPECT_EQ(why_not(2), "found") << "the new one";
}

TEST_F(PlansTest, AnotherTextIsNotUsedAndTheReasonTold) {
  const KeptPlan kept = make(2);
  const std::string text = kernels::plan_text(kept.measured);
  std::string unknown = text;
  unknown.replace(unknown.find("rest=") + 5, 4, "sve2");
  replace(kept, unknown);
  EXPECT_THAT(why_not(2), HasSubstr("rest: expected a level, found 'sve2"));
  EXPECT_EQ(source(), "builtin");
  EXPECT_THAT(log_, HasSubstr("event=builtin_plan reason=\"plan: rest"));
}

TEST_F(PlansTest, DamageIsFound) {
  const KeptPlan kept = make(2);
  const std::string path = dir_ + "/objects/" + kept.section.object();
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::fstream(path) << "F";
  EXPECT_THAT(why_not(2), HasSubstr("plans"));
  options_.tune_seconds = 1e-3;
  EXPECT_EQ(source(), "measured") << "again";
  EXPECT_EQ(source(), "store");
}

TEST_F(PlansTest, AnEngineMeasuresOnlyWhereItMay) {
  EXPECT_EQ(source(), "builtin");
  options_.tune_seconds = 1e-3;
  EXPECT_EQ(source(), "measured");
  EXPECT_EQ(source(), "store");
  options_.tune_seconds = 0;
  EXPECT_EQ(source(), "store");
  options_.tune = false;
  EXPECT_EQ(source(), "builtin");
}

TEST_F(PlansTest, WithoutTuningOrWithAnIsaTheStoreIsLeftAlone) {
  options_.tune_seconds = 1e-3;
  options_.tune = false;
  EXPECT_EQ(source(), "builtin");
  options_.tune = true;
  options_.weights.pack = false;
  EXPECT_EQ(source(), "builtin");
  options_.weights.pack = true;
  ::setenv("STOKER_ISA", "avx2", 1);
  EXPECT_EQ(source(), "environment");
  const auto plan = engine_plan(2, options_);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->plan.rest->isa, kernels::Isa::kAvx2);
  const auto refused = tune({.store = dir_});
  ::unsetenv("STOKER_ISA");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("STOKER_ISA"));
  EXPECT_FALSE(std::filesystem::exists(dir_));
}

TEST_F(PlansTest, AStoreThatIsNoneIsToldAndNothingIsMeasured) {
  std::ofstream(dir_) << "a file";
  options_.tune_seconds = 1e-3;
  EXPECT_EQ(source(), "builtin");
  EXPECT_THAT(log_, HasSubstr(dir_));
}

TEST_F(PlansTest, TheDoorTellsWhatIsKept) {
  const auto nothing = kept_plan({.store = dir_, .num_threads = 2});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(nothing.error().message, HasSubstr("stoker tune"));
  for (const double seconds : {0.0, -1.0, 1e9, std::nan("")})
    EXPECT_FALSE(tune({.store = dir_, .seconds = seconds})) << seconds;
  const auto made = tune({.store = dir_, .num_threads = 2, .seconds = 0.2});
  ASSERT_TRUE(made) << made.error().message;
  const auto kept = kept_plan({.store = dir_, .num_threads = 2});
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->path, made->path);
  EXPECT_TRUE(std::filesystem::exists(kept->path));
  ASSERT_EQ(kept->choices.size(), kernels::kNumPlanItems);
  EXPECT_EQ(kept->choices.back().operation, "rest");
  EXPECT_EQ(kept->choices.front().rows, 1);
}

}  // namespace
}  // namespace stoker
