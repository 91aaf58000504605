// What is known of a batch of /v1/batches, and its JSON: as clients are told it, and as it is kept.
// Knows no files and no engine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/request_parser.h"
#include "stoker/result.h"

namespace stoker {

enum class BatchStatus {
  kValidating,  ///< its input is being looked at
  kInProgress,  ///< its requests are answered, or wait for their turn
  kFinalizing,  ///< its answers become files
  kCompleted,
  kFailed,
  kCancelling,  ///< the same as kFinalizing, once nothing of it runs
  kCancelled,
};

/// "validating", "in_progress", ... Static strings.
const char* to_string(BatchStatus status);

/// Whether nothing is left to be done.
bool is_over(BatchStatus status);

/// Why a batch failed, or a line of its input that is wrong. A plain value.
struct BatchFault {
  std::string code;
  std::string message;
  int64_t line = 0;        ///< from 1; 0: of no line
  std::string param = {};  ///< the member at fault; may be empty
};

/// What a client asks for. A plain value.
struct BatchOrder {
  std::string input_file_id;
  Route route = Route::kChat;
  Json metadata;  ///< an object of strings, or null
};

/// The body of POST /v1/batches. Errors: kInvalidArgument and kUnsupported with their field.
Result<BatchOrder> parse_batch_order(std::string_view body);

/// The path that the requests of such a batch have.
const char* batch_endpoint(Route route);

/// A plain value.
struct BatchRecord {
  std::string id;
  std::string owner;  ///< the name of a key; empty: whoever shows none
  BatchOrder order;
  BatchStatus status = BatchStatus::kValidating;
  std::map<BatchStatus, int64_t> since;  ///< when it came to each, seconds of the Unix clock
  int64_t num_total = 0;                 ///< requests of the input
  int64_t num_completed = 0;             ///< of these, answered
  int64_t num_failed = 0;                ///< of these, refused
  std::vector<BatchFault> faults;
  std::string output_id, error_id;  ///< of the files that its answers and refusals become
  bool has_output = false;          ///< there is one of that id
  bool has_errors = false;

  /// Goes on to a status, now.
  void enter(BatchStatus next);
  int64_t created_at() const;
  /// When it is too late to begin, or to go on after an interruption.
  int64_t expires_at() const;
};

/// As OpenAI's API tells a batch.
std::string batch_json(const BatchRecord& record);

/// As it is kept: the same with what only the server needs.
std::string batch_state_text(const BatchRecord& record);

/// Reads batch_state_text. Errors: kCorruptData for what it cannot have written, kUnsupported for
/// the state of another version.
Result<BatchRecord> parse_batch_state(std::string_view text, const std::string& id,
                                      const std::string& owner);

}  // namespace stoker
