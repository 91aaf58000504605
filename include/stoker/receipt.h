// Receipts: all that decides an answer, and the answer, in token ids. Who has the model runs it
// again, on another machine too, and finds the same tokens or the first that differs; `stoker
// replay` does.
//
// A request with Request::receipt has one in each Finish. What parse_receipt makes of it becomes a
// request again by replay_request, and first_difference holds the answer to that against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/engine.h"
#include "stoker/events.h"
#include "stoker/llm.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

/// A plain value.
struct Receipt {
  std::string version;       ///< of the Stoker that gave the answer; decides nothing
  std::string model;         ///< ModelInfo::name; decides nothing
  std::string model_digest;  ///< ModelInfo::digest
  std::string numeric_mode;  ///< ModelInfo::numeric_mode
  /// What decides the ids, with nothing left to the checkpoint: a TokenPrompt, the sampling with
  /// all its defaults and the seed, max_tokens, and what ends the answer. n is 1: each choice has a
  /// receipt of its own.
  Request request;

  // The answer.
  std::vector<int32_t> ids;                   ///< every token chosen, as Choice::ids; at least one
  FinishReason reason = FinishReason::kStop;  ///< neither kCancelled nor kError
  std::optional<std::string> stop;            ///< as Finish
  std::optional<int32_t> stop_token;          ///< as Finish
};

/// The JSON object of docs/formats.md, on one line without its line feed.
std::string receipt_json(const Receipt& receipt);

/// What receipt_json wrote, white space around it allowed. Error: kInvalidArgument with the member,
/// what is expected there and what was found: nothing is guessed, no member ignored. What
/// parameters may be is left to Engine::submit.
Result<Receipt> parse_receipt(std::string_view text);

/// EngineOptions::bounded_replay of an engine with the numeric mode of the receipt. Error:
/// kInvalidArgument where this Stoker has no such mode.
Result<BoundedReplay> replay_mode(const Receipt& receipt);

/// The request that gives the answer of the receipt again; it ends where that ends, at the latest.
/// Error: kInvalidArgument where the model, its numeric mode or its vocabulary is another one.
Result<Request> replay_request(const Receipt& receipt, const ModelInfo& model);

/// Where an answer departs from a receipt.
struct Difference {
  size_t position = 0;              ///< in ids; their number where only the ends differ
  std::optional<int32_t> expected;  ///< the receipt's token there; none behind its last one
  std::optional<int32_t> found;     ///< the answer's
};

/// The first position at which the answer to a replay_request differs; none: they are equal, and
/// ended for the same reason.
std::optional<Difference> first_difference(const Receipt& receipt, const Choice& answer);

}  // namespace stoker
