#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Checkpoint, OpensSmallAndDemo) {
  for (const char* dir : {"/tests/data/small/checkpoint", "/models/demo"}) {
    auto c = Checkpoint::open(std::string(STOKER_SOURCE_DIR) + dir, 2);
    ASSERT_TRUE(c) << c.error().message;
  }
}

}  // namespace
}  // namespace stoker
