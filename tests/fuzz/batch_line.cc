// Any bytes as a line of a batch: of its input, with the body that it holds, and of an output that
// a run goes on with.
#include "server/batch_line.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"

namespace stoker {
namespace {

bool is_clients_fault(int status) {
  return status == 400 || status == 404 || status == 405;
}

void check_written(const BatchOutputLine& read, BatchOutputLine::Kind kind,
                   const std::string& custom_id) {
  CHECK(read.kind == kind && read.custom_id == custom_id, "what is written is read again");
}

void check_input(std::string_view text) {
  const BatchLine line = parse_batch_line(text);
  CHECK(line.custom_id || line.error, "a request or what is wrong");
  if (line.error) {
    CHECK(is_clients_fault(line.error->status) && !line.error->message.empty(), "told");
  } else {
    const auto parsed = parse_request(line.route, line.body(), {"demo"});
    CHECK(!parsed || !parsed->requests.empty(), "requests");
  }
  if (!line.custom_id) return;
  CHECK(batch_seed(*line.custom_id, 0) < uint64_t{1} << 53, "every JSON reader keeps it");
  std::string written = response_line("0", {*line.custom_id, "r", 200, "{}"});
  CHECK(written.find('\n') == written.size() - 1, "one line");
  written.pop_back();
  check_written(parse_output_line(written), BatchOutputLine::Kind::kFinished, *line.custom_id);
  for (size_t n = 0; n < written.size(); ++n) {
    CHECK(is_cut_output_line(std::string_view(written).substr(0, n)), "a cut line is known");
  }
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  stoker::check_input(text);
  (void)stoker::parse_output_line(text);
  (void)stoker::is_cut_output_line(text);
  return 0;
}
