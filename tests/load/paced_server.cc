// paced_server: the real server over an engine that computes nothing. At each tick of a clock every
// request gets one token of text, as a step of a large model would give it: what is left is the
// cost of the server. It ends with SIGTERM.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/thread_name.h"
#include "server/server.h"

namespace stoker {
namespace {

// One request. `given` counts the ticks since it was submitted; the reader lags behind.
struct Paced {
  std::mutex mutex;  // guards what follows
  int32_t given = 0;
  std::function<void()> ready;
};

struct Running {
  std::mutex mutex;  // guards `all`
  std::unordered_set<std::shared_ptr<Paced>> all;
};

class PacedStream : public Stream {
 public:
  PacedStream(std::shared_ptr<Running> running, std::shared_ptr<Paced> paced, int32_t max_tokens)
      : running_(std::move(running)), paced_(std::move(paced)), max_tokens_(max_tokens) {}

  ~PacedStream() override { cancel(); }

  std::optional<Event> poll() override {
    int32_t given = 0;
    {
      const std::scoped_lock lock(paced_->mutex);
      given = std::min(paced_->given, max_tokens_);
    }
    if (read_ >= given) return std::nullopt;
    Event event;
    event.ids = {42};
    event.num_shown = 1;
    event.text = " word";
    if (++read_ == max_tokens_) {
      event.finish.emplace();
      event.finish->reason = FinishReason::kLength;
      event.finish->usage = {1, 0, 1, max_tokens_, 0};
    }
    return event;
  }

  std::optional<Event> wait(std::chrono::milliseconds /*limit*/) override { return poll(); }

  void cancel() override {
    {
      const std::scoped_lock lock(running_->mutex);
      running_->all.erase(paced_);
    }
    const std::scoped_lock lock(paced_->mutex);
    paced_->ready = nullptr;
  }

  const std::vector<int32_t>& prompt_ids() const override { return prompt_; }
  uint64_t seed() const override { return 0; }
  int32_t num_choices() const override { return 1; }

 private:
  const std::shared_ptr<Running> running_;
  const std::shared_ptr<Paced> paced_;
  const int32_t max_tokens_;
  const std::vector<int32_t> prompt_ = {1};
  int32_t read_ = 0;
};

class PacedEngine : public Engine {
 public:
  explicit PacedEngine(std::chrono::milliseconds step) : step_(step) {
    model_.name = "paced";
    model_.vocab_size = 1000;
    model_.max_context_tokens = 1 << 20;
    model_.has_text = true;
    thread_ = std::jthread([this](const std::stop_token& stop) {
      name_this_thread("engine");
      run(stop);
    });
  }

  const ModelInfo& model() const override { return model_; }
  std::string token_bytes(int32_t) const override { return " word"; }
  Result<std::vector<int32_t>> encode(Prompt) const override { return std::vector<int32_t>{1}; }
  Result<std::string> decode(const std::vector<int32_t>& ids) const override {
    return std::string(ids.size(), 'w');
  }

  Result<std::unique_ptr<Stream>> submit(Request request, std::function<void()> ready) override {
    auto paced = std::make_shared<Paced>();
    paced->ready = std::move(ready);
    const std::scoped_lock lock(running_->mutex);
    running_->all.insert(paced);
    return std::unique_ptr<Stream>(
        std::make_unique<PacedStream>(running_, std::move(paced), request.max_tokens.value_or(16)));
  }

  EngineStats stats() const override { return {}; }
  void reset_prefix_cache() override {}
  Result<void> sleep(SleepLevel, bool) override { return {}; }
  void wake_up() override {}
  void log_state() override {}
  Result<void> start_profile() override { return {}; }
  Result<std::function<std::string()>> stop_profile() override {
    return std::function<std::string()>([] { return std::string(); });
  }
  bool healthy() const override { return true; }
  void drain(std::chrono::milliseconds) override {}

 private:
  void run(const std::stop_token& stop) {
    auto tick = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      std::this_thread::sleep_until(tick += step_);
      std::vector<std::shared_ptr<Paced>> all;
      {
        const std::scoped_lock lock(running_->mutex);
        all.assign(running_->all.begin(), running_->all.end());
      }
      for (const auto& paced : all) {
        const std::scoped_lock lock(paced->mutex);
        ++paced->given;
        if (paced->ready) paced->ready();
      }
    }
  }

  const std::chrono::milliseconds step_;
  const std::shared_ptr<Running> running_ = std::make_shared<Running>();
  ModelInfo model_;
  std::jthread thread_;
};

}  // namespace

int run_paced_server(int argc, char** argv) {
  CLI::App app("The server over an engine that computes nothing, to measure the server.");
  uint16_t port = 0;
  int step_ms = 130;
  app.add_option("--port", port, "where it listens; 0: a free one")->capture_default_str();
  std::string uds;
  app.add_option("--uds", uds, "a Unix socket to listen on instead");
  app.add_option("--step-ms", step_ms, "time between two tokens of a request")
      ->capture_default_str()
      ->check(CLI::Range(1, 60000));
  CLI11_PARSE(app, argc, argv);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  PacedEngine engine{std::chrono::milliseconds(step_ms)};
  ServerOptions options;
  options.port = port;
  options.unix_socket = uds;
  auto server = Server::start(std::move(options));
  if (!server) {
    std::cerr << "paced_server: " << server.error().message << "\n";
    return 3;
  }
  (*server)->attach(engine);
  const std::string url =
      uds.empty() ? "http://127.0.0.1:" + std::to_string((*server)->port()) : "unix:" + uds;
  std::cerr << "stoker: ready; paced at " << url << std::endl;
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  (*server)->stop(std::chrono::seconds(1));
  return 0;
}

}  // namespace stoker

int main(int argc, char** argv) {
  return stoker::run_paced_server(argc, argv);
}
