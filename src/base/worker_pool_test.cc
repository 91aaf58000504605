#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

TEST(WorkerPool, EachPieceOnceForAnyNumberOfThreads) {
  for (const int num_threads : {1, 2, 3, 8}) {
    WorkerPool pool(num_threads);
    for (int round = 0; round < 200; ++round) {
      const int64_t num_pieces = round % 17;
      std::vector<int> done(static_cast<size_t>(num_pieces), 0);
      pool.run(num_pieces, [&](int64_t piece, int worker) {
        EXPECT_LT(worker, num_threads);
        ++done[static_cast<size_t>(piece)];
      });
      for (const int times : done) ASSERT_EQ(times, 1);
    }
  }
}

TEST(WorkerPool, EveryThreadFlushesDenormals) {
  WorkerPool pool(3);
  volatile float tiny = std::numeric_limits<float>::min();
  std::vector<float> halves(64, 1);
  pool.run(
      64, [&](int64_t piece, int /*worker*/) { halves[static_cast<size_t>(piece)] = tiny * 0.5F; });
  for (const float half : halves) EXPECT_EQ(half, 0.0F);
  EXPECT_GT(tiny * 0.5F, 0.0F) << "and the caller's mode is put back";
}

}  // namespace
}  // namespace stoker
