// Batches in the background over a scripted engine: from an input to files, and on after whatever
// ended the server.
#include "server/batch_service.h"

#include <gmock/gmock.h>

#include <ctime>
#include <thread>

#include "server/batch_fixture.h"
#include "server/scripted_engine.h"

namespace stoker {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string service_line(const std::string& custom_id, const std::string& prompt,
                         const std::string& url = "/v1/completions") {
  return R"({"custom_id":")" + custom_id + R"(","method":"POST","url":")" + url +
         R"(","body":{"prompt":")" + prompt + "\"}}\n";
}

// "never" has no end, "wrong" is refused, the others end at once.
Script by_word(const Request& request) {
  const std::string text = std::get<TextPrompt>(request.prompt).text;
  Script script = script_of({"Hello."});
  if (text == "never") script.steps.resize(1);
  if (text == "wrong") script.refusal = Error{ErrorCode::kInvalidArgument, "prompt: no", "prompt"};
  return script;
}

class BatchServiceTest : public FolderTest {
 protected:
  // As a server that starts; the one before must be gone.
  void start(ScriptedEngine::Writer writer = by_word, BatchServiceOptions options = {}) {
    service_.reset();
    engine_ = std::make_unique<ScriptedEngine>(std::move(writer));
    options.folder = path("state");
    options.log = [this](LogLevel, std::string_view line) {
      const std::scoped_lock lock(log_mutex_);
      log_.emplace_back(line);
    };
    auto service = BatchService::open(std::move(options));
    ASSERT_TRUE(service) << service.error().message;
    service_ = *std::move(service);
    service_->attach(*engine_, {"scripted"});
  }

  // The streams of a service are gone before its engine is.
  void TearDown() override { service_.reset(); }

  StoredFile upload(const std::string& content) {
    auto draft = service_->files().begin_upload();
    EXPECT_TRUE(draft && draft->append(content));
    return service_->files().publish(*std::move(draft), {"", "a", "in", "batch", 0, 5}).value();
  }

  std::string create(const std::string& input, Route route = Route::kCompletions) {
    const auto made = service_->create("a", {upload(input).id, route, {}});
    EXPECT_TRUE(made) << made.error().message;
    return made->id;
  }

  BatchRecord wait_for(const std::string& id, BatchStatus status) const {
    return wait_until(id, [status](const BatchRecord& each) { return each.status == status; });
  }

  BatchRecord wait_until(const std::string& id,
                         const std::function<bool(const BatchRecord&)>& is_so) const {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < limit) {
      auto record = service_->find(id, "a");
      if (!record) break;
      if (is_so(*record)) return *std::move(record);
      std::this_thread::sleep_for(1ms);
    }
    ADD_FAILURE() << "it does not come to that; it is "
                  << (service_->find(id, "a") ? to_string(service_->find(id, "a")->status)
                                              : "gone");
    return {};
  }

  // The custom_ids of a file, in order; none where there is no such file.
  std::vector<std::string> ids_of(const std::string& file_id) const {
    std::vector<std::string> found;
    const std::string content =
        service_->files().find(file_id, "a") ? read("state/" + file_id) : "";
    for (size_t at = 0; at < content.size(); at = content.find('\n', at) + 1)
      found.push_back(parse_output_line(content.substr(at, content.find('\n', at) - at)).custom_id);
    return found;
  }

  std::vector<std::string> names(const std::string& suffix) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path("state"))) {
      if (entry.path().string().ends_with(suffix)) found.push_back(entry.path().filename());
    }
    return found;
  }

  std::vector<std::string> codes(const BatchRecord& record) const {
    std::vector<std::string> found;
    for (const BatchFault& fault : record.faults)
      found.push_back(fault.code + " " + std::to_string(fault.line));
    return found;
  }

  std::unique_ptr<ScriptedEngine> engine_;
  std::unique_ptr<BatchService> service_;
  std::mutex log_mutex_;  // guards log_
  std::vector<std::string> log_;
};

TEST_F(BatchServiceTest, AnswersAndRefusalsBecomeFiles) {
  start();
  const std::string id =
      create(service_line("a", "x") + "\n" + service_line("b", "wrong") + service_line("c", "y"));
  const BatchRecord done = wait_for(id, BatchStatus::kCompleted);
  EXPECT_EQ(done.num_total, 3);
  EXPECT_EQ(done.num_completed, 2);
  EXPECT_EQ(done.num_failed, 1);
  EXPECT_TRUE(done.has_output && done.has_errors);
  EXPECT_THAT(ids_of(done.output_id), UnorderedElementsAre("a", "c"));
  EXPECT_THAT(ids_of(done.error_id), ElementsAre("b"));
  const auto output = service_->files().find(done.output_id, "a");
  EXPECT_EQ(output->filename, id + "_output.jsonl");
  EXPECT_EQ(output->purpose, "batch_output");
  for (const Request& request : engine_->requests()) {
    EXPECT_EQ(request.priority, kBackgroundPriority);
    EXPECT_LT(*request.sampling.seed, uint64_t{1} << 53);
  }
  for (const BatchStatus status : {BatchStatus::kValidating, BatchStatus::kInProgress,
                                   BatchStatus::kFinalizing, BatchStatus::kCompleted})
    EXPECT_TRUE(done.since.contains(status)) << to_string(status);
  EXPECT_FALSE(service_->find(id, "b"));
  EXPECT_THAT(service_->list("b"), IsEmpty());
}

TEST_F(BatchServiceTest, WrongInputsFail) {
  start();
  const std::string wrong = "nonsense\n" + service_line("a", "x") + service_line("a", "x") +
                            service_line("c", "x", "/v1/chat/completions") + "{}\n";
  const BatchRecord failed = wait_for(create(wrong), BatchStatus::kFailed);
  EXPECT_THAT(codes(failed), ElementsAre("invalid_line 1", "duplicate_custom_id 3",
                                         "mismatched_endpoint 4", "invalid_line 5"));
  EXPECT_THAT(codes(wait_for(create(" \n"), BatchStatus::kFailed)), ElementsAre("empty_file 0"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "x\n";
  EXPECT_EQ(wait_for(create(many), BatchStatus::kFailed).faults.size(), 20U);
  BatchServiceOptions options;
  options.max_line_bytes = 200;
  start(by_word, options);
  const std::string long_line = service_line("a", std::string(300, 'x'));
  EXPECT_THAT(codes(wait_for(create(long_line), BatchStatus::kFailed)),
              ElementsAre("line_too_long 1"));
  EXPECT_THAT(engine_->requests(), IsEmpty());
}

TEST_F(BatchServiceTest, InputsMustBeOwnInputs) {
  start();
  const StoredFile file = upload(service_line("a", "x"));
  EXPECT_EQ(service_->create("b", {file.id, Route::kChat, {}}).error().code, ErrorCode::kNotFound);
  const std::string id = create(service_line("a", "x"));
  const BatchRecord done = wait_for(id, BatchStatus::kCompleted);
  const auto again = service_->create("a", {done.output_id, Route::kChat, {}});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(BatchServiceTest, CancellingKeepsWhatIsThere) {
  start();
  const std::string id = create(service_line("a", "x") + service_line("b", "never"));
  wait_until(id, [](const BatchRecord& each) { return each.num_completed == 1; });
  const auto cancelled = service_->cancel(id, "a");
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->status, BatchStatus::kCancelling);
  EXPECT_TRUE(engine_->wait_until_idle(5s));
  const BatchRecord done = wait_for(id, BatchStatus::kCancelled);
  EXPECT_THAT(ids_of(done.output_id), ElementsAre("a"));
  EXPECT_FALSE(done.has_errors);
  EXPECT_EQ(service_->cancel(id, "a")->status, BatchStatus::kCancelled);
  EXPECT_EQ(service_->cancel(id, "b").error().code, ErrorCode::kNotFound);
  // The next one has its turn.
  const std::string next = create(service_line("a", "x"));
  wait_for(next, BatchStatus::kCompleted);
  EXPECT_EQ(service_->cancel(next, "a").error().code, ErrorCode::kInvalidArgument);
  service_.reset();
  EXPECT_THAT(names(".out"), IsEmpty());
}

TEST_F(BatchServiceTest, OneThatWaitsIsCancelledAtOnce) {
  start();
  const std::string first = create(service_line("a", "never"));
  const std::string second = create(service_line("b", "never"));
  wait_for(second, BatchStatus::kInProgress);
  ASSERT_TRUE(engine_->wait_for_requests(1));
  ASSERT_TRUE(service_->cancel(second, "a"));
  EXPECT_FALSE(wait_for(second, BatchStatus::kCancelled).has_output);
  EXPECT_EQ(service_->find(first, "a")->status, BatchStatus::kInProgress);
  EXPECT_EQ(engine_->requests().size(), 1U);
}

TEST_F(BatchServiceTest, AnInputInUseStays) {
  start();
  const std::string id = create(service_line("a", "never"));
  const BatchRecord record = *service_->find(id, "a");
  const StoredFile file = *service_->files().find(record.order.input_file_id, "a");
  EXPECT_EQ(service_->remove_file(file).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(service_->cancel(id, "a"));
  wait_for(id, BatchStatus::kCancelled);
  EXPECT_TRUE(service_->remove_file(file));
}

TEST_F(BatchServiceTest, GoesOnAfterAStop) {
  start();
  const std::string id = create(service_line("a", "x") + service_line("b", "never"));
  wait_until(id, [](const BatchRecord& each) { return each.num_completed == 1; });
  service_->stop(0ms);
  EXPECT_EQ(engine_->num_live_streams(), 0);
  EXPECT_THAT(names(".out"), ElementsAre(id + ".out"));
  start(hello);
  const BatchRecord done = wait_for(id, BatchStatus::kCompleted);
  EXPECT_THAT(ids_of(done.output_id), ElementsAre("a", "b"));
  EXPECT_EQ(engine_->requests().size(), 1U);
  EXPECT_EQ(done.num_completed, 2);
  service_.reset();
  EXPECT_THAT(names(".out"), IsEmpty());
}

TEST_F(BatchServiceTest, AStopWaitsForWhatRuns) {
  start([](const Request&) {
    Script script = script_of({"Hello."});
    script.steps.front().delay = 300ms;
    return script;
  });
  std::string input;
  for (int i = 0; i < 100; ++i) input += service_line(std::to_string(i), "x");
  const std::string id = create(input);
  ASSERT_TRUE(engine_->wait_for_requests(8));
  service_->stop(10s);
  const size_t num_asked = engine_->requests().size();
  EXPECT_LE(num_asked, 16U);
  EXPECT_EQ(engine_->num_cancelled(), 0);
  EXPECT_EQ(service_->find(id, "a")->num_completed, static_cast<int64_t>(num_asked));
  start(hello);
  EXPECT_EQ(ids_of(wait_for(id, BatchStatus::kCompleted).output_id).size(), 100U);
  EXPECT_EQ(engine_->requests().size(), 100 - num_asked);
}

// As if the server had been killed at each of these moments: what is on disk is put back to it.
TEST_F(BatchServiceTest, GoesOnFromEveryMoment) {
  start();
  const std::string id = create(service_line("a", "x") + service_line("b", "wrong"));
  const BatchRecord done = wait_for(id, BatchStatus::kCompleted);
  service_.reset();
  const std::string output = read("state/" + done.output_id) + read("state/" + done.error_id);
  const auto go_back = [&](BatchStatus status, const std::string& out) {
    service_.reset();
    BatchRecord earlier = done;
    earlier.status = status;
    earlier.has_output = earlier.has_errors = false;
    earlier.since.erase(BatchStatus::kCompleted);
    earlier.since[BatchStatus::kValidating] = std::time(nullptr);
    const std::string state = "state/" + id + ".a.json";
    std::filesystem::remove(path(state));
    write(state, batch_state_text(earlier));
    write("state/" + id + ".out", out);
  };
  const std::string line = output.substr(0, output.find('\n') + 1);
  for (const BatchStatus status : {BatchStatus::kValidating, BatchStatus::kInProgress,
                                   BatchStatus::kFinalizing, BatchStatus::kCancelling}) {
    for (const std::string& out : {output, line, line + output.substr(line.size(), 30)}) {
      if (status == BatchStatus::kFinalizing && out != output) continue;
      go_back(status, out);
      start();
      const bool is_cancelled = status == BatchStatus::kCancelling;
      const BatchRecord again =
          wait_for(id, is_cancelled ? BatchStatus::kCancelled : BatchStatus::kCompleted);
      EXPECT_THAT(ids_of(again.output_id), ElementsAre("a"));
      if (!is_cancelled || out == output) {
        EXPECT_THAT(ids_of(again.error_id), ElementsAre("b"));
      }
    }
  }
}

TEST_F(BatchServiceTest, DamagedStatesAreFailedBatches) {
  start();
  const std::string id = create(service_line("a", "x"));
  wait_for(id, BatchStatus::kCompleted);
  service_.reset();
  const std::string state = "state/" + id + ".a.json";
  for (const std::string& text :
       {std::string(), std::string("{\"id\":\"") + id, std::string("\0\0", 2)}) {
    std::filesystem::remove(path(state));
    write(state, text);
    start();
    const BatchRecord failed = wait_for(id, BatchStatus::kFailed);
    EXPECT_THAT(codes(failed), ElementsAre("damaged_state 0"));
    EXPECT_EQ(read(state), text);
    service_.reset();
  }
}

TEST_F(BatchServiceTest, DamagedOutputsAndLostInputsFail) {
  start();
  const std::string id = create(service_line("a", "x") + service_line("b", "never"));
  wait_until(id, [](const BatchRecord& each) { return each.num_completed == 1; });
  const std::string input = service_->find(id, "a")->order.input_file_id;
  service_.reset();
  write("state/" + id + ".out", "of somebody else\n" + read("state/" + id + ".out"));
  start();
  const BatchRecord failed = wait_for(id, BatchStatus::kFailed);
  EXPECT_THAT(codes(failed), ElementsAre("server_error 0"));
  EXPECT_THAT(ids_of(failed.output_id), ElementsAre("a"));
  const std::string second = create(service_line("a", "never"));
  ASSERT_TRUE(engine_->wait_for_requests(1));
  const std::string lost = service_->find(second, "a")->order.input_file_id;
  service_.reset();
  std::filesystem::resize_file(path("state/" + lost), 3);
  start();
  EXPECT_THAT(codes(wait_for(second, BatchStatus::kFailed)), ElementsAre("server_error 0"));
}

TEST_F(BatchServiceTest, AWindowThatIsOverIsTold) {
  start();
  const std::string id = create(service_line("a", "x") + service_line("b", "never"));
  wait_until(id, [](const BatchRecord& each) { return each.num_completed == 1; });
  service_->stop(0ms);
  BatchRecord old = *service_->find(id, "a");
  old.since[BatchStatus::kValidating] -= 24 * 3600 + 10;
  service_.reset();
  const std::string state = "state/" + id + ".a.json";
  std::filesystem::remove(path(state));
  write(state, batch_state_text(old));
  start();
  const BatchRecord failed = wait_for(id, BatchStatus::kFailed);
  EXPECT_THAT(codes(failed), ElementsAre("batch_expired 0"));
  EXPECT_THAT(ids_of(failed.output_id), ElementsAre("a"));
}

TEST_F(BatchServiceTest, APauseHoldsLinesBack) {
  start();
  service_->set_paused(true);
  const std::string id = create(service_line("a", "x"));
  wait_for(id, BatchStatus::kInProgress);
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(engine_->requests(), IsEmpty());
  service_->set_paused(false);
  wait_for(id, BatchStatus::kCompleted);
}

TEST_F(BatchServiceTest, AnEngineThatStoppedLosesNothing) {
  start();
  const std::string id = create(service_line("a", "x") + service_line("b", "never"));
  wait_until(id, [](const BatchRecord& each) { return each.num_completed == 1; });
  engine_->set_healthy(false);
  EXPECT_TRUE(engine_->wait_until_idle(5s));
  EXPECT_EQ(service_->find(id, "a")->status, BatchStatus::kInProgress);
  start(hello);
  EXPECT_THAT(ids_of(wait_for(id, BatchStatus::kCompleted).output_id), ElementsAre("a", "b"));
}

// An engine that is full of others' requests is waited for, however long.
TEST_F(BatchServiceTest, WaitsForRoomInTheEngine) {
  std::atomic<bool> is_full{true};
  start([&is_full](const Request& request) {
    Script script = hello(request);
    if (is_full) script.refusal = Error{ErrorCode::kOverloaded, "full", ""};
    return script;
  });
  const std::string id = create(service_line("a", "x"));
  std::this_thread::sleep_for(250ms);
  EXPECT_EQ(service_->find(id, "a")->status, BatchStatus::kInProgress);
  is_full = false;
  EXPECT_EQ(wait_for(id, BatchStatus::kCompleted).num_completed, 1);
}

TEST_F(BatchServiceTest, OldBatchesAreForgotten) {
  BatchServiceOptions options;
  options.max_batches = 2;
  start(by_word, options);
  const std::string first = create(service_line("a", "x"));
  wait_for(first, BatchStatus::kCompleted);
  const std::string second = create(service_line("a", "never"));
  const std::string third = create(service_line("a", "never"));
  EXPECT_FALSE(service_->find(first, "a"));
  EXPECT_EQ(names(first + ".a.json").size(), 0U);
  const auto refused = service_->create("a", {upload("x").id, Route::kChat, {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  const auto all = service_->list("a");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].id, third);
  EXPECT_EQ(all[1].id, second);
}

}  // namespace
}  // namespace stoker
