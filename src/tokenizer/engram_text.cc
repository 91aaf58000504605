#include "tokenizer/engram_text.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "base/utf8.h"
#include "tokenizer/unicode_class.h"
#include "tokenizer/unicode_normal.h"

namespace stoker {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// The trained normaliser knows the marks and decompositions of Unicode 9.0. These became marks,
// combining or decomposable after it: there they are letters that end every composition. engram.py,
// INERT.
constexpr Range kInert[] = {
    {0x558, 0x558},     {0x58B, 0x58C},     {0x5C8, 0x5C9},     {0x7FD, 0x7FD},
    {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB53, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xCF3, 0xD00},
    {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1AF0},   {0x1CF7, 0x1CF7},
    {0x1DF6, 0x1DFA},   {0x209D, 0x209F},   {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},
    {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0xAB69, 0xAB69},   {0x105C9, 0x105E4},
    {0x10781, 0x107BF}, {0x10D24, 0x10D6D}, {0x10EAB, 0x10F85}, {0x11070, 0x11074},
    {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
    {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11382, 0x113E2}, {0x1145E, 0x1145E},
    {0x1182C, 0x1183A}, {0x11930, 0x11A99}, {0x11B60, 0x11B67}, {0x11D31, 0x11F5A},
    {0x13440, 0x13455}, {0x1611E, 0x1612F}, {0x16D63, 0x16D6A}, {0x16F4F, 0x16F4F},
    {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1B123, 0x1B126}, {0x1CCD6, 0x1CF46},
    {0x1D127, 0x1D128}, {0x1D250, 0x1D281}, {0x1D6A6, 0x1D6A6}, {0x1DF95, 0x1DFFF},
    {0x1E030, 0x1E6F5}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

// Letters since Unicode 12.0, marks before. engram.py, MARK_IN_9.
constexpr Range kMarksIn9 = {0x1CF2, 0x1CF3};

// Lower case is that of Unicode 17: what utf8proc may lack. engram.py, LOWER.
struct LowerRange {
  char32_t first;
  char32_t last;
  char32_t lower_of_first;
};
constexpr LowerRange kLower[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},  {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},  {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

// Stands for a text that is one space while white space is stripped.
constexpr char32_t kLoneSpace = 0xE000;

bool is_inert(char32_t c) {
  const auto* range =
      std::lower_bound(std::begin(kInert), std::end(kInert), c,
                       [](const Range& r, char32_t value) { return r.last < value; });
  return range != std::end(kInert) && range->first <= c;
}

bool is_dropped_mark(char32_t c) {
  return char_class(c) == CharClass::kMark || (c >= kMarksIn9.first && c <= kMarksIn9.last);
}

bool is_blank(char32_t c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

char32_t lower(char32_t c) {
  for (const LowerRange& range : kLower) {
    if (c >= range.first && c <= range.last) return range.lower_of_first + (c - range.first);
  }
  return lower_case(c);
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    out.push_back(c.value);
    at += c.length;
  }
  return out;
}

// ASCII, most of a vocabulary, is its own normal form.
void append_without_marks(std::string_view part, std::u32string& out) {
  if (std::ranges::none_of(part, [](char c) { return (c & 0x80) != 0; })) {
    out.append(part.begin(), part.end());
    return;
  }
  for (const char32_t c : code_points(nfkc_then_nfd(part))) {
    if (!is_dropped_mark(c)) out.push_back(c);
  }
}

// Normal forms without marks; inert characters stay, and what stands between two of them is
// normalised on its own.
std::u32string normal_form(std::string_view text) {
  std::u32string out;
  size_t part = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (is_inert(c.value)) {
      append_without_marks(text.substr(part, at - part), out);
      out.push_back(c.value);
      part = at + c.length;
    }
    at += c.length;
  }
  append_without_marks(text.substr(part), out);
  return out;
}

std::u32string fold_blanks(const std::u32string& text) {
  std::u32string out;
  for (const char32_t c : text) {
    if (!is_blank(c)) {
      out.push_back(c);
    } else if (out.empty() || out.back() != ' ') {
      out.push_back(' ');
    }
  }
  return out;
}

std::u32string strip(const std::u32string& text) {
  const auto is_ink = [](char32_t c) { return char_class(c) != CharClass::kWhiteSpace; };
  const auto first = std::find_if(text.begin(), text.end(), is_ink);
  const auto last = std::find_if(text.rbegin(), std::make_reverse_iterator(first), is_ink).base();
  return {first, last};
}

}  // namespace

std::string engram_text(std::string_view text) {
  std::u32string form = normal_form(text);
  std::transform(form.begin(), form.end(), form.begin(), lower);
  form = fold_blanks(form);
  if (form == U" ") form = kLoneSpace;
  std::string out;
  for (const char32_t c : strip(form)) append_utf8(out, c == kLoneSpace ? U' ' : c);
  return out;
}

}  // namespace stoker
