#include "server/storage_routes.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/try.h"
#include "server/http_query.h"

namespace stoker {
namespace {

constexpr size_t kMaxShownBytes = 100;

/// What a page of a list may hold.
struct PageLimits {
  int64_t usual, most;
};
constexpr PageLimits kFilePages = {10'000, 10'000};
constexpr PageLimits kBatchPages = {20, 100};

Error wrong_parameter(const std::string& name, const std::string& expected,
                      const std::string& found) {
  return {
      ErrorCode::kInvalidArgument,
      name + ": expected " + expected + ", found " + json_quote(found.substr(0, kMaxShownBytes)),
      name};
}

Error no_such_file(const std::string& id) {
  return {ErrorCode::kNotFound,
          "there is no file " + json_quote(id.substr(0, kMaxShownBytes)) + " here", "file_id"};
}

Result<int64_t> read_limit(const std::string& query, PageLimits limits) {
  const auto text = query_value(query, "limit");
  if (!text) return limits.usual;
  int64_t limit = 0;
  const char* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, limit);
  if (code == std::errc() && stop == end && limit >= 1 && limit <= limits.most) return limit;
  return wrong_parameter("limit", "a number from 1 to " + std::to_string(limits.most), *text);
}

Result<bool> wants_ascending(const std::string& query) {
  const std::string order = query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc") return wrong_parameter("order", "asc or desc", order);
  return order == "asc";
}

// The part of a list, the latest first, that a query asks for.
template <class Item>
Result<std::string> page_json(std::vector<Item> items, const std::string& query, PageLimits limits,
                              std::string (*json_of)(const Item&)) {
  TRY_ASSIGN(const int64_t limit, read_limit(query, limits));
  TRY_ASSIGN(const bool is_ascending, wants_ascending(query));
  if (is_ascending) std::reverse(items.begin(), items.end());
  auto begin = items.begin();
  if (const auto after = query_value(query, "after")) {
    begin = std::find_if(items.begin(), items.end(),
                         [&after](const Item& item) { return item.id == *after; });
    if (begin == items.end())
      return wrong_parameter("after", "the id of one that is in the list", *after);
    ++begin;
  }
  const auto end = begin + std::min<int64_t>(limit, items.end() - begin);
  std::string data;
  for (auto item = begin; item != end; ++item) data += (item == begin ? "" : ",") + json_of(*item);
  const std::string first = begin == end ? "null" : json_quote(begin->id);
  const std::string last = begin == end ? "null" : json_quote((end - 1)->id);
  return R"({"object":"list","data":[)" + data + R"(],"first_id":)" + first + R"(,"last_id":)" +
         last + R"(,"has_more":)" + (end == items.end() ? "false" : "true") + "}";
}

Result<std::string> list_files(const FileStore& files, const StorageRequest& request) {
  std::vector<StoredFile> found = files.list(request.owner);
  if (const auto purpose = query_value(request.query, "purpose"))
    std::erase_if(found, [&purpose](const StoredFile& file) { return file.purpose != *purpose; });
  return page_json(std::move(found), request.query, kFilePages, stored_file_json);
}

Result<std::string> delete_file(BatchService& batches, const StoredFile& file) {
  if (auto removed = batches.remove_file(file); !removed) return std::move(removed).error();
  Json out = Json::object();
  out.set("id", Json::string(file.id));
  out.set("object", Json::string("file"));
  out.set("deleted", Json::boolean(true));
  return out.dump();
}

Result<std::string> answer_file(BatchService& batches, const StorageRequest& request) {
  const auto file = batches.files().find(request.id, request.owner);
  if (!file) return no_such_file(request.id);
  return request.method == "DELETE" ? delete_file(batches, *file) : stored_file_json(*file);
}

Result<StoredContent> open_content(const FileStore& files, const StorageRequest& request) {
  const auto file = files.find(request.id, request.owner);
  if (!file) return no_such_file(request.id);
  TRY_ASSIGN(Descriptor descriptor, files.open_content(*file));
  return StoredContent{std::move(descriptor), file->num_bytes};
}

Result<std::string> create_batch(BatchService& batches, const StorageRequest& request) {
  TRY_ASSIGN(BatchOrder order, parse_batch_order(request.body));
  TRY_ASSIGN(const BatchRecord record, batches.create(request.owner, std::move(order)));
  return batch_json(record);
}

Result<std::string> answer_batch(const BatchService& batches, const StorageRequest& request) {
  const auto record = batches.find(request.id, request.owner);
  if (record) return batch_json(*record);
  return no_such_batch(request.id);
}

Result<std::string> cancel_batch(BatchService& batches, const StorageRequest& request) {
  TRY_ASSIGN(const BatchRecord record, batches.cancel(request.id, request.owner));
  return batch_json(record);
}

Result<std::string> json_answer(BatchService& batches, const StorageRequest& request) {
  switch (request.target) {
    case Target::kFiles:
      return list_files(batches.files(), request);
    case Target::kFile:
      return answer_file(batches, request);
    case Target::kBatches:
      if (request.method == "POST") return create_batch(batches, request);
      return page_json(batches.list(request.owner), request.query, kBatchPages, batch_json);
    case Target::kBatch:
      return answer_batch(batches, request);
    case Target::kBatchCancel:
      return cancel_batch(batches, request);
    default:
      break;
  }
  CHECK(false, "a target of what is stored");
}

}  // namespace

StorageAnswer answer_from_storage(BatchService& batches, const StorageRequest& request) {
  if (request.target == Target::kFileContent) {
    auto content = open_content(batches.files(), request);
    if (!content) return {"", std::nullopt, to_http_error(content.error())};
    return {"", *std::move(content), std::nullopt};
  }
  auto body = json_answer(batches, request);
  if (!body) return {"", std::nullopt, to_http_error(body.error())};
  return {*std::move(body), std::nullopt, std::nullopt};
}

}  // namespace stoker
