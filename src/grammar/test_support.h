// What the tests of this room share: a small vocabulary, and short ways to compile and to match.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/program.h"
#include "grammar/vocabulary.h"

namespace stoker::grammar::testing {

inline constexpr int32_t kEnd = 0;      // the token that ends
inline constexpr int32_t kSpecial = 1;  // never allowed

/// All single bytes, and tokens of many kinds: words, whole and partial characters, pieces of JSON.
inline std::shared_ptr<const Vocabulary> small_vocabulary(
    const std::vector<std::string>& more = {}) {
  std::vector<std::string> tokens = {"<end>", "<special>", ""};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const char* pieces[] = {
      "ab",          "abc",         "ba",         "aa",         "aaaa",
      "bb",          "cab",         "\"}",        "\",",        "\":",
      "\": ",        "\", \"",      "{\"",        "[{",         "}]",
      "}}",          "]]",          "],",         "12",         "123",
      "0.5",         "true",        "null",       "false",      "\n  ",
      "\n",          "    ",        "\\n",        "\\u00",      "\\\"",
      "é",           "\xC3",        "日本",       "\xE6\x97",   "\xA5x",
      "\xE6",        "😀",           "\xF0\x9F",   "\x98\x80\"", "a\"",
      "a\":1,\"b",   "</",          "</｜DSML｜", "｜DSML｜",   "<｜DSML｜ calls>\n",
      " parameter>", "hello world", "x y"};
  for (const char* piece : pieces) tokens.emplace_back(piece);
  for (const std::string& token : more) tokens.push_back(token);
  const int32_t never[] = {kSpecial};
  const int32_t ends[] = {kEnd};
  return std::make_shared<const Vocabulary>(std::move(tokens), never, ends);
}

inline std::shared_ptr<const Program> compile_or_die(
    const Grammar& grammar, std::shared_ptr<const Vocabulary> vocabulary = small_vocabulary(),
    const ProgramOptions& options = {}) {
  auto program = Program::compile(grammar, std::move(vocabulary), options);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  if (!program) std::abort();
  return *std::move(program);
}

inline bool has_bit(const std::vector<uint64_t>& mask, int32_t id) {
  return ((mask[static_cast<size_t>(id) / 64] >> (id % 64)) & 1U) != 0;
}

/// Whether the text, byte by byte, is a complete one of the grammar.
inline bool matches(const Grammar& grammar, std::string_view text) {
  static const auto vocabulary = small_vocabulary();
  ProgramOptions options;
  options.max_eager_work = 0;
  Matcher matcher(compile_or_die(grammar, vocabulary, options));
  for (const char byte : text)
    if (!matcher.accept(3 + static_cast<uint8_t>(byte))) return false;
  return matcher.can_end();
}

/// How often a random test runs: STOKER_GRAMMAR_RUNS in place of `usual`.
inline int num_runs(int usual) {
  const char* asked = std::getenv("STOKER_GRAMMAR_RUNS");
  return asked != nullptr ? std::atoi(asked) : usual;
}

/// The seed of the first run: STOKER_GRAMMAR_SEED, else 0.
inline int first_seed() {
  const char* asked = std::getenv("STOKER_GRAMMAR_SEED");
  return asked != nullptr ? std::atoi(asked) : 0;
}

}  // namespace stoker::grammar::testing
