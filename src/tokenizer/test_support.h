// What the room's tests share: files, random texts, one loaded tokenizer.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace stoker::testing {

constexpr size_t kMaxFileBytes = 64 << 20;

/// For a hostile text. Generous: 0.3 s in a Release build. A quadratic loop takes hours.
constexpr std::chrono::seconds kHostileLimit(60);

inline std::string read_source(const std::string& path) {
  auto text = read_file(std::string(STOKER_SOURCE_DIR "/") + path, kMaxFileBytes);
  EXPECT_TRUE(text.has_value()) << path;
  return text ? *std::move(text) : std::string();
}

inline Json read_source_json(const std::string& path) {
  auto json = Json::parse(read_source(path));
  EXPECT_TRUE(json.has_value()) << path;
  return json ? *std::move(json) : Json();
}

/// Ends the test program where the file is refused.
inline Tokenizer parse_or_die(std::string_view json) {
  auto tokenizer = Tokenizer::parse(json);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    std::abort();
  }
  return *std::move(tokenizer);
}

/// The tokenizer of the small checkpoint: 578 ids, merges as pairs.
inline const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer =
      parse_or_die(read_source("tests/data/small/checkpoint/tokenizer.json"));
  return tokenizer;
}

inline std::vector<int32_t> ids_of(const Json& array) {
  std::vector<int32_t> ids;
  for (const Json& item : array.items()) {
    ids.push_back(static_cast<int32_t>(item.as_int().value_or(-1)));
  }
  return ids;
}

/// Characters of all scripts and lengths, the common ones often, in runs as texts have them.
inline std::string random_text(std::mt19937& random, size_t num_characters) {
  constexpr std::string_view kCommon = "aaetonhis ETA  \n\r\t0123456789.,'_(){}<>/|";
  std::string text;
  const auto below = [&random](uint32_t bound) { return static_cast<char32_t>(random() % bound); };
  while (num_characters > 0) {
    --num_characters;
    switch (random() % 8) {
      case 0:
        append_utf8(text, 0x4E00 + below(0x5200));
        break;
      case 1:
        append_utf8(text, 0x80 + below(0x780));
        break;
      case 2:
        append_utf8(text, 0x2000 + below(0x1100));
        break;
      case 3:
        append_utf8(text, 0x1F300 + below(0x400));
        break;
      case 4: {
        const char32_t c = below(0x110000);
        append_utf8(text, c >= 0xD800 && c < 0xE000 ? U'x' : c);
        break;
      }
      default:
        text.push_back(kCommon[random() % kCommon.size()]);
    }
  }
  return text;
}

inline std::string random_bytes(std::mt19937& random, size_t size) {
  std::string bytes;
  // Lead and continuation bytes often, so that sequences are cut in every way.
  constexpr std::string_view kOften = "\x80\xBF\xC2\xE0\xA0\xED\x9F\xF0\x90\xF4\x8F\xEF\xBD\x9C<";
  while (bytes.size() < size) {
    bytes.push_back(random() % 2 ? kOften[random() % kOften.size()] : static_cast<char>(random()));
  }
  return bytes;
}

}  // namespace stoker::testing
