// What an engine takes of memory and time after 10,000 steps, beside what it took after 1,000.
#include "support/steady.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/try.h"
#include "bench/bench.h"

namespace stoker::bench {

Result<Json> steady(const Setup& setup) {
  TRY_ASSIGN(const std::shared_ptr<const LoadedModel> model,
             LoadedModel::load(setup.model,
                               {.num_threads = setup.num_threads, .weights = {.pack = false}}));
  const int64_t num_steps = setup.quick ? 500 : 10'000;
  TRY_ASSIGN(const auto tenths,
             testing::run_steadily(model->model(), setup.num_threads, num_steps));
  std::vector<Json> out;
  for (const testing::Tenth& tenth : tenths) {
    out.push_back(Json::object({{"resident_bytes", Json::integer(tenth.resident_bytes)},
                                {"heap_bytes", Json::integer(tenth.heap_bytes)},
                                {"step_s", number(tenth.step_s)},
                                {"requests", Json::integer(tenth.num_finished)}}));
    say("  " + out.back().dump());
  }
  const testing::Tenth& second = tenths[1];
  const testing::Tenth& last = tenths.back();
  return Json::object(
      {{"steps", Json::integer(num_steps)},
       {"tenths", Json::array(std::move(out))},
       {"resident_growth_bytes", Json::integer(last.resident_bytes - second.resident_bytes)},
       {"heap_growth_bytes", Json::integer(last.heap_bytes - second.heap_bytes)},
       {"step_growth", number(last.step_s / second.step_s)}});
}

}  // namespace stoker::bench
