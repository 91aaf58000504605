// For the fuzz targets of grammars: a small vocabulary, and a few steps of a compiled grammar, in
// which a token is accepted exactly where the mask has it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "grammar/matcher.h"

namespace stoker::grammar {

inline std::shared_ptr<const Vocabulary> fuzz_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> tokens = {"<end>"};
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* more : {"ab", "\"}", "\": ", "{\"", "[1", "],", "日本", "\xE6\x97", "12",
                             "\\u00", "\n  ", "aaaa"})
      tokens.emplace_back(more);
    const int32_t ends[] = {0};
    return std::make_shared<const Vocabulary>(std::move(tokens), std::vector<int32_t>{}, ends);
  }();
  return vocabulary;
}

/// Compiles within small limits and follows `choices`.
inline void fuzz_run(const Grammar& grammar, std::span<const uint8_t> choices) {
  ProgramOptions options;
  options.limits = {.max_nfa_states = 5000,
                    .max_states = 1000,
                    .max_subset_entries = 50000,
                    .max_table_bytes = size_t{1} << 20};
  options.max_eager_work = 20000;
  options.max_mask_bytes = 20000;
  const auto program = Program::compile(grammar, fuzz_vocabulary(), options);
  if (!program) return;
  Matcher matcher(*program);
  std::vector<uint64_t> mask(fuzz_vocabulary()->num_words());
  for (const uint8_t choice : choices.first(std::min<size_t>(choices.size(), 12))) {
    if (!matcher.fill(mask)) return;
    int32_t next = -1;
    for (int32_t id = 0; id < static_cast<int32_t>(fuzz_vocabulary()->size()); ++id) {
      const bool allowed = ((mask[static_cast<size_t>(id) / 64] >> (id % 64)) & 1U) != 0;
      const bool accepted = matcher.accept(id);
      CHECK(accepted == allowed || matcher.failed(), "the mask has what is accepted");
      if (!accepted) continue;
      matcher.rollback(1);
      if (next < 0 || id <= choice) next = id;
    }
    CHECK(next >= 0 || matcher.failed(), "a text can always be completed");
    if (next < 0 || !matcher.accept(next) || matcher.ended()) return;
  }
}

/// What was made of any bytes: a grammar, or an error that names a place in them.
inline void fuzz_source(const Result<Grammar>& grammar, std::span<const uint8_t> bytes) {
  if (grammar) return fuzz_run(*grammar, bytes);
  const std::string& message = grammar.error().message;
  CHECK(message.find("byte") != std::string::npos || message.find("large") != std::string::npos,
        "errors name a place");
}

}  // namespace stoker::grammar
