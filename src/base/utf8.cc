#include "base/utf8.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// What may follow a lead byte: how many bytes, and the range of the second one. length 0: no lead
// byte.
struct Lead {
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {.length = 1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {.length = 2};
  if (byte == 0xE0) return {.length = 3, .low = 0xA0};
  if (byte == 0xED) return {.length = 3, .high = 0x9F};
  if (byte < 0xF0) return {.length = 3};
  if (byte == 0xF0) return {.length = 4, .low = 0x90};
  if (byte < 0xF4) return {.length = 4};
  if (byte == 0xF4) return {.length = 4, .high = 0x8F};
  return {};
}

// Length of the longest prefix of text[at..] that can begin, or is, a well-formed sequence of
// `lead`.
size_t well_formed_length(std::string_view text, size_t at, const Lead& lead) {
  size_t n = 1;
  while (n < lead.length && at + n < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at + n]);
    const unsigned char low = n == 1 ? lead.low : 0x80;
    const unsigned char high = n == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
    ++n;
  }
  return n;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {kReplacement, 1, false};
  const size_t n = well_formed_length(text, at, lead);
  if (n < lead.length) return {kReplacement, n, false};
  if (n == 1) return {first, 1, true};
  char32_t value = first & (0x7FU >> n);
  for (size_t i = 1; i < n; ++i)
    value = (value << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  return {value, n, true};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.valid) {
      out.append(text, at, c.length);
    } else {
      append_utf8(out, kReplacement);
    }
    at += c.length;
  }
  return out;
}

size_t incomplete_utf8_tail(std::string_view text) {
  const size_t longest = std::min<size_t>(3, text.size());
  for (size_t n = 1; n <= longest; ++n) {
    const size_t at = text.size() - n;
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    if (lead.length > n && well_formed_length(text, at, lead) == n) return n;
  }
  return 0;
}

}  // namespace stoker
