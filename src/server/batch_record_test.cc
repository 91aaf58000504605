#include "server/batch_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

using ::testing::HasSubstr;

const std::string kRecordId = "batch_00000000000000000000000000000001";

BatchRecord a_record() {
  BatchRecord record;
  record.id = kRecordId;
  record.owner = "team";
  record.order = {"file-00000000000000000000000000000002", Route::kCompletions,
                  Json::object({{"note", Json::string("x\"y")}})};
  record.status = BatchStatus::kFailed;
  record.since = {{BatchStatus::kValidating, 1000}, {BatchStatus::kFailed, 1001}};
  record.num_total = 3;
  record.num_completed = 1;
  record.num_failed = 2;
  record.faults = {{"invalid_line", "not JSON", 2, ""}, {"mismatched_endpoint", "m", 3, "url"}};
  record.output_id = "file-00000000000000000000000000000003";
  record.error_id = "file-00000000000000000000000000000004";
  record.has_errors = true;
  return record;
}

TEST(BatchRecord, IsToldAsOpenAiTellsIt) {
  EXPECT_EQ(
      batch_json(a_record()),
      R"({"id":"batch_00000000000000000000000000000001","object":"batch","endpoint":"/v1/completions",)"
      R"("errors":{"object":"list","data":[{"code":"invalid_line","line":2,"message":"not JSON",)"
      R"("param":null},{"code":"mismatched_endpoint","line":3,"message":"m","param":"url"}]},)"
      R"("input_file_id":"file-00000000000000000000000000000002","completion_window":"24h",)"
      R"("status":"failed","output_file_id":null,)"
      R"("error_file_id":"file-00000000000000000000000000000004","created_at":1000,)"
      R"("in_progress_at":null,"finalizing_at":null,"completed_at":null,"failed_at":1001,)"
      R"("cancelling_at":null,"cancelled_at":null,"expires_at":87400,"expired_at":null,)"
      R"("request_counts":{"total":3,"completed":1,"failed":2},"metadata":{"note":"x\"y"}})");
}

TEST(BatchRecord, ItsStateIsReadAgain) {
  const std::string text = batch_state_text(a_record());
  const auto read = parse_batch_state(text, kRecordId, "team");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(batch_state_text(*read), text);
  EXPECT_EQ(read->owner, "team");
}

TEST(BatchRecord, DamagedStatesAreKnown) {
  const std::string text = batch_state_text(a_record());
  EXPECT_FALSE(parse_batch_state(text, "batch_00000000000000000000000000000009", "team"));
  for (size_t n = 0; n + 2 < text.size(); ++n)
    EXPECT_FALSE(parse_batch_state(text.substr(0, n), kRecordId, "team")) << n;
  const std::pair<const char*, const char*> changes[] = {
      {"\"failed\"", "\"finished\""},
      {"/v1/completions", "/v1/embeddings"},
      {"\"created_at\":1000", "\"created_at\":9223372036854775807"},
      {"\"total\":3", "\"total\":-3"},
      {"{\"note\":\"x\\\"y\"}", "7"},
      {"\"output_id\":\"file-", "\"output_id\":\"../file-"},
      {"\"errors\":{", "\"errors\":{\"data\":[]},\"others\":{"},
      {"\"version\":1", "\"version\":2"},
  };
  for (const auto& [from, to] : changes) {
    std::string damaged = text;
    const size_t at = damaged.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    const auto read =
        parse_batch_state(damaged.replace(at, std::string(from).size(), to), kRecordId, "team");
    ASSERT_FALSE(read) << from;
    const bool is_other = std::string(from).find("version") != std::string::npos;
    EXPECT_EQ(read.error().code, is_other ? ErrorCode::kUnsupported : ErrorCode::kCorruptData);
  }
}

TEST(BatchRecord, OrdersAreChecked) {
  const std::string good =
      R"({"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h")";
  const auto order = parse_batch_order(good + R"(,"metadata":{"a":"b"},"unknown":1})");
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->input_file_id, "file-1");
  EXPECT_EQ(order->route, Route::kChat);
  EXPECT_EQ(order->metadata.dump(), R"({"a":"b"})");
  const std::string long_text(513, 'x');
  const std::pair<std::string, const char*> rows[] = {
      {"[]", "the body"},
      {"{}", "input_file_id"},
      {R"({"input_file_id":7})", "input_file_id"},
      {R"({"input_file_id":"a"})", "endpoint"},
      {R"({"input_file_id":"a","endpoint":"/v1/embeddings"})", "endpoint"},
      {R"({"input_file_id":"a","endpoint":"/v1/completions"})", "completion_window"},
      {R"({"input_file_id":"a","endpoint":"/v1/completions","completion_window":"7d"})",
       "completion_window"},
      {good + R"(,"metadata":[]})", "metadata"},
      {good + R"(,"metadata":{"a":1}})", "metadata"},
      {good + R"(,"metadata":{"a":")" + long_text + "\"}}", "metadata"},
      {good + R"(,"output_expires_after":{"seconds":3600}})", "output_expires_after"},
  };
  for (const auto& [body, field] : rows) {
    const auto refused = parse_batch_order(body);
    ASSERT_FALSE(refused) << body;
    EXPECT_EQ(refused.error().field, field) << body;
  }
}

}  // namespace
}  // namespace stoker
