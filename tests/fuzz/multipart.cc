// Any bytes as the body of an upload, and as the state of a batch. The first byte says what the
// rest is: 's' the state, else a body, which must be understood in the same way whole and in
// pieces, between boundaries "X".
#include "server/multipart.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "server/batch_record.h"
#include "server/state_folder.h"

namespace stoker {
namespace {

// The parts, and what is wrong behind them.
std::string parts_of(std::string_view body, size_t piece_bytes) {
  std::string told;
  const auto begin = [&told](const MultipartPart& part) -> Result<void> {
    CHECK(!part.name.empty() && part.name.size() <= 64 && is_valid_utf8(part.name), "a name");
    CHECK(!part.filename || (part.filename->size() <= 255 && is_valid_utf8(*part.filename)),
          "a filename");
    told += "\n[" + part.name + "]" + part.filename.value_or("");
    return {};
  };
  const auto data = [&told](std::string_view bytes) -> Result<void> {
    told += bytes;
    return {};
  };
  MultipartParser parser("X", {begin, data});
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    if (const auto fed = parser.feed(body.substr(at, piece_bytes)); !fed) {
      CHECK(fed.error().code == ErrorCode::kInvalidArgument, "a client's fault is told as one");
      return "refused";
    }
  }
  return parser.finish() ? told : "refused";
}

void check_state(std::string_view text) {
  const std::string id = "batch_00000000000000000000000000000000";
  const auto record = parse_batch_state(text, id, "team");
  if (!record) return;
  CHECK(is_stored_id(record->output_id, kFilePrefix), "no path leads elsewhere");
  CHECK(is_stored_id(record->error_id, kFilePrefix), "no path leads elsewhere");
  const std::string written = batch_state_text(*record);
  const auto again = parse_batch_state(written, id, "team");
  CHECK(again && batch_state_text(*again) == written, "what is written is read again");
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 's') {
    stoker::check_state(rest);
    return 0;
  }
  CHECK(stoker::parts_of(rest, rest.size() + 1) == stoker::parts_of(rest, 1 + data[0] % 7),
        "pieces are read as the whole is");
  const auto boundary = stoker::multipart_boundary(rest);
  CHECK(!boundary || (!boundary->empty() && boundary->size() <= 70), "a boundary");
  return 0;
}
