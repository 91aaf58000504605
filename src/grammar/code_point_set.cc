#include "grammar/code_point_set.h"

#include <algorithm>

namespace stoker::grammar {

void CodePointSet::add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
}

std::vector<std::pair<char32_t, char32_t>> CodePointSet::sorted() const {
  std::vector<std::pair<char32_t, char32_t>> ranges = ranges_;
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::pair<char32_t, char32_t>> joined;
  for (const auto& [first, last] : ranges) {
    if (!joined.empty() && first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, last);
    } else {
      joined.emplace_back(first, last);
    }
  }
  return joined;
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  char32_t next = 0;
  for (const auto& [first, last] : sorted()) {
    if (first > next) out.add(next, first - 1);
    next = last + 1;
  }
  if (next <= kMax) out.add(next, kMax);
  return out;
}

NodeId CodePointSet::emit(GrammarBuilder& builder) const {
  ByteSet ascii;
  std::vector<NodeId> alternatives;
  for (const auto& [first, last] : sorted()) {
    for (char32_t c = first; c <= std::min<char32_t>(last, 0x7F); ++c) ascii.set(c);
    if (last >= 0x80)
      alternatives.push_back(builder.code_points(std::max<char32_t>(first, 0x80), last));
  }
  if (ascii.any()) alternatives.push_back(builder.bytes(ascii));
  return builder.choice(alternatives);
}

CodePointSet CodePointSet::of_class(char letter) {
  CodePointSet set;
  switch (letter) {
    case 'd':
      set.add('0', '9');
      break;
    case 'w':
      set.add('0', '9');
      set.add('A', 'Z');
      set.add('_', '_');
      set.add('a', 'z');
      break;
    default:  // white space and line ends of ECMA-262
      set.add(0x09, 0x0D);
      for (const char32_t one : {0x20, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000, 0xFEFF})
        set.add(one, one);
      set.add(0x2000, 0x200A);
      set.add(0x2028, 0x2029);
      break;
  }
  return set;
}

}  // namespace stoker::grammar
