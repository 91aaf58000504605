// The canary: a few prompts with the answers that the model gave when a snapshot was made. An
// engine that gives the same ones, bit for bit, is the same engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "snapshot/digest.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// Tokens of each answer.
inline constexpr int32_t kCanaryTokens = 16;
inline constexpr size_t kMaxCanaryBytes = size_t{1} << 20;

/// A prompt and its answer, greedy.
struct CanaryPrompt {
  std::string name;              ///< "short", "long", "tools"
  std::vector<int32_t> ids;      ///< of the prompt
  std::vector<int32_t> tokens;   ///< kCanaryTokens of them
  snapshot::Digest digest = {};  ///< of the tokens, their log-probabilities and the likeliest 20

  bool operator==(const CanaryPrompt&) const = default;
};

/// A plain value.
struct Canary {
  std::vector<CanaryPrompt> prompts;

  bool operator==(const Canary&) const = default;
};

/// Prompts for a model, with the answers that this engine gives each alone. One is longer than
/// `window` tokens, if the context has the room. Here as below each run has a salt of its own: it
/// reads no cached prefix and leaves none that others could; and others may ask meanwhile. Errors:
/// those of the engine, kDeadlineExceeded after `limit`, kCancelled where it cancelled a prompt.
Result<Canary> make_canary(Engine& engine, int32_t window, std::chrono::milliseconds limit);

/// Runs the first prompt alone, without drafts, then all at once, with drafts and without. Error:
/// kInternal with field "canary" for the first difference; as make_canary.
Result<void> check_canary(Engine& engine, const Canary& canary, std::chrono::milliseconds limit);

/// JSON; and back. Error: kCorruptData for what is not what canary_text wrote, or has ids outside
/// the vocabulary.
std::string canary_text(const Canary& canary);
Result<Canary> parse_canary(std::string_view text, int32_t vocab_size);

}  // namespace stoker
