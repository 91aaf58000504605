#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

unsigned char byte_at(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

AddedTokenFinder::Pass::Pass(std::vector<Spelling> spellings) : sorted_(std::move(spellings)) {
  std::sort(sorted_.begin(), sorted_.end(),
            [](const Spelling& a, const Spelling& b) { return a.text < b.text; });
  for (const Spelling& spelling : sorted_) ++starts_[size_t{byte_at(spelling.text, 0)} + 1];
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

// Narrows the range of spellings that agree with the text, byte by byte. The one that ends first
// sorts first.
const AddedTokenFinder::Spelling* AddedTokenFinder::Pass::longest_at(std::string_view text,
                                                                     size_t at) const {
  const size_t first = byte_at(text, at);
  const Spelling* begin = sorted_.data() + starts_[first];
  const Spelling* end = sorted_.data() + starts_[first + 1];
  const Spelling* longest = nullptr;
  for (size_t depth = 1; begin != end; ++depth) {
    if (begin->text.size() == depth) longest = begin++;
    if (at + depth == text.size()) break;
    const unsigned char byte = byte_at(text, at + depth);
    begin = std::partition_point(begin, end,
                                 [&](const Spelling& s) { return byte_at(s.text, depth) < byte; });
    end = std::partition_point(begin, end,
                               [&](const Spelling& s) { return byte_at(s.text, depth) == byte; });
  }
  return longest;
}

void AddedTokenFinder::Pass::split(std::string_view text, std::vector<Segment>& segments) const {
  size_t gap = 0;
  for (size_t at = 0; at < text.size();) {
    const Spelling* found = longest_at(text, at);
    if (found == nullptr) {
      ++at;
      continue;
    }
    if (gap < at) segments.push_back({text.substr(gap, at - gap), std::nullopt});
    segments.push_back({text.substr(at, found->text.size()), found->id});
    at += found->text.size();
    gap = at;
  }
  if (gap < text.size()) segments.push_back({text.substr(gap), std::nullopt});
}

std::optional<int32_t> AddedTokenFinder::Pass::find(std::string_view spelling) const {
  const auto found =
      std::lower_bound(sorted_.begin(), sorted_.end(), spelling,
                       [](const Spelling& s, std::string_view text) { return s.text < text; });
  if (found == sorted_.end() || found->text != spelling) return std::nullopt;
  return found->id;
}

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens) {
  std::vector<Spelling> raw;
  std::vector<Spelling> normalized;
  for (const AddedToken& token : tokens) {
    (token.normalized ? normalized : raw).push_back({token.spelling, token.id});
  }
  raw_ = Pass(std::move(raw));
  normalized_ = Pass(std::move(normalized));
}

std::vector<AddedTokenFinder::Segment> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Segment> halves;
  raw_.split(text, halves);
  std::vector<Segment> segments;
  for (const Segment& segment : halves) {
    if (segment.id) {
      segments.push_back(segment);
    } else {
      normalized_.split(segment.text, segments);
    }
  }
  return segments;
}

std::optional<int32_t> AddedTokenFinder::find(std::string_view spelling) const {
  const auto raw = raw_.find(spelling);
  return raw ? raw : normalized_.find(spelling);
}

}  // namespace stoker
