#include "support/steady.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/try.h"
#include "engine/stepper.h"

namespace stoker::testing {
namespace {

constexpr int64_t kRequests = 8;  // at the same time
constexpr int64_t kPrefix = 160;  // tokens, more than a block: the prefix cache is used

// Of /proc/self/statm, in pages: all of the address space, what of it is in memory, and what of
// that mirrors files.
int64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  long all = 0;
  long resident = 0;
  long of_files = 0;
  CHECK(file != nullptr && std::fscanf(file, "%ld %ld %ld", &all, &resident, &of_files) == 3,
        "Linux tells what a process has in memory");
  std::fclose(file);
  return int64_t{resident - of_files} * ::sysconf(_SC_PAGESIZE);
}

int64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class Requests {
 public:
  Requests(engine::Stepper& stepper, int32_t vocab_size)
      : stepper_(stepper), vocab_size_(static_cast<uint32_t>(vocab_size)) {
    clients_.resize(kRequests);
  }

  void begin() {
    for (Client& client : clients_) submit(client);
  }

  // Ends them all and forgets what they left behind: what then is in memory is there for ever.
  void end() {
    stepper_.scheduler().end_all(engine::End::kCancelled, std::nullopt);
    stepper_.scheduler().reset_cache();
    for (Client& client : clients_) client.stream.reset();
    ::malloc_trim(0);
  }

  // Replaces what ended, or has gone on for as long as its client waits. Their number.
  int64_t replace() {
    int64_t num_ended = 0;
    for (Client& client : clients_) {
      const engine::TokenProgress progress = client.stream->take();
      client.patience -= static_cast<int64_t>(progress.tokens.size());
      if (!progress.end && client.patience > 0) continue;
      if (!progress.end)
        stepper_.scheduler().end(client.key, engine::End::kCancelled, std::nullopt);
      ++num_ended;
      submit(client);
    }
    return num_ended;
  }

 private:
  struct Client {
    std::shared_ptr<engine::TokenStream> stream;
    engine::SequenceKey key;
    int64_t patience = 0;  // tokens until it cancels
  };

  void submit(Client& client) {
    engine::TokenRequest request;
    const auto token = [this](uint64_t seed) {
      return static_cast<int32_t>(seed * 2654435761U % (vocab_size_ / 2));
    };
    if (random_() % 4 == 0) {
      for (uint64_t i = 0; i < kPrefix; ++i) request.prompt.push_back(token(i));
    }
    const uint64_t own = 1 + random_() % 30;
    for (uint64_t i = 0; i < own; ++i) request.prompt.push_back(token(random_()));
    request.max_tokens = static_cast<int32_t>(20 + random_() % 100);
    request.seed = random_();
    request.sampling.temperature = request.seed % 2 == 0 ? 0 : 1;
    client.patience = random_() % 5 == 0 ? 10 : request.max_tokens;
    client.stream = std::make_shared<engine::TokenStream>(nullptr, std::function<void()>());
    auto sequence = stepper_.sequence_of(std::move(request), client.stream);
    CHECK(sequence, "the budget has room for it");
    client.key = {0, num_submitted_++};
    (*sequence)->key = client.key;
    stepper_.scheduler().enqueue(*std::move(sequence));
  }

  engine::Stepper& stepper_;
  const uint32_t vocab_size_;
  std::vector<Client> clients_;
  std::mt19937_64 random_{1};
  int64_t num_submitted_ = 0;
};

}  // namespace

Result<std::array<Tenth, 10>> run_steadily(const Model& model, int num_threads, int64_t num_steps) {
  // So little that all of it was in use by the first tenths: memory that nobody has touched yet is
  // not resident.
  const KvShape shape = model.state_shape();
  const int64_t budget = 4 * kRequests * shape.slot_bytes() + 6 * kRequests * shape.block_bytes();
  TRY_ASSIGN(const auto stepper,
             engine::Stepper::create(model, num_threads,
                                     {.max_num_seqs = kRequests, .kv_budget_bytes = budget}));
  Requests requests(*stepper, model.config().vocab_size);
  std::array<Tenth, 10> tenths;
  std::vector<double> seconds(static_cast<size_t>(num_steps / 10));
  for (Tenth& tenth : tenths) {
    requests.begin();
    for (double& step_s : seconds) {
      const auto begin = std::chrono::steady_clock::now();
      stepper->step();
      step_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      tenth.num_finished += requests.replace();
    }
    requests.end();
    tenth.resident_bytes = resident_bytes();
    tenth.heap_bytes = heap_bytes();
    const auto middle = seconds.begin() + static_cast<int64_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    tenth.step_s = *middle;
  }
  return tenths;
}

}  // namespace stoker::testing
