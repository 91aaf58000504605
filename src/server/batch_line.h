// The lines of a batch: what one asks for, and what is written for it. Knows no files and no
// engine. docs/batch.md describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/http_error.h"
#include "server/request_parser.h"

namespace stoker {

/// One line of the input. A plain value.
struct BatchLine {
  std::optional<std::string> custom_id;
  std::optional<HttpError> error;  ///< always where there is no custom_id; then the rest is not set
  Route route = Route::kCompletions;
  Json json;  ///< the whole line

  /// What is asked. The line must have no error.
  const Json& body() const { return *json.find("body"); }
};

/// Reads one line of the input, without looking into its body. What is wrong with it is told in
/// the value.
BatchLine parse_batch_line(std::string_view text);

/// The seed of a request whose body has none: splitmix64(fnv1a64(custom_id) ^ splitmix64(run_seed))
/// >> 11. Depends on nothing else, so that neither the order of the lines nor an interruption
/// changes an answer. Below 2^53, so that every JSON reader keeps all of it.
uint64_t batch_seed(std::string_view custom_id, uint64_t run_seed);

/// What becomes of a request. `body` is the JSON of an answer or of an error.
struct BatchResponse {
  std::string custom_id;
  std::string request_id;
  int status = 200;
  std::string body;
};

/// The line of the output for a request that was answered or refused, with its line feed. `id` is
/// without "batch_req_".
std::string response_line(const std::string& id, const BatchResponse& response);

/// The line of the output for a line of the input that is no request of its own.
struct BatchLineError {
  std::optional<std::string> custom_id;  ///< null in JSON where there is none
  std::string code;                      ///< "invalid_line", "line_too_long", "duplicate_custom_id"
  std::string message;                   ///< names the number of the line
};
std::string error_line(const std::string& id, const BatchLineError& error);

/// Whether an answer of this status is final. Others had a reason that may pass, and are asked for
/// again.
bool is_final_status(int64_t status);

/// What a line of an existing output means for a run that goes on with it.
struct BatchOutputLine {
  enum class Kind {
    kForeign,   ///< no line of a batch's output
    kFinished,  ///< the request of `custom_id` has its final answer
    kAgain,     ///< to be made again
  };
  Kind kind = Kind::kForeign;
  std::string custom_id = {};
  int64_t status = 0;  ///< of its response; 0: it has none

  bool is_answer() const { return status == 200; }  ///< and no refusal
};
BatchOutputLine parse_output_line(std::string_view text);

/// Whether these bytes can be the beginning of a line that a run was writing when it ended.
bool is_cut_output_line(std::string_view bytes);

}  // namespace stoker
