// The Engram token map: which ids share a class. Declared in tokenizer.h; engram_text.h normalises.
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/engram_text.h"
#include "tokenizer/tokenizer.h"

namespace stoker {
namespace {

// One dictionary holds both kinds of keys: a vocabulary string may coincide with a normalised text.
std::string class_key(const Tokenizer& tokenizer, int32_t id) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string text = repair_utf8(tokenizer.bytes(id));
  if (text.find(kReplacement) != std::string::npos) return std::string(tokenizer.symbol(id));
  std::string normal = engram_text(text);
  return normal.empty() ? text : normal;
}

}  // namespace

EngramMap engram_map(const Tokenizer& tokenizer) {
  EngramMap map;
  map.class_of.reserve(static_cast<size_t>(tokenizer.size()));
  boost::unordered_flat_map<std::string, int32_t, std::hash<std::string>> classes;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const auto entry = classes.emplace(class_key(tokenizer, id), map.num_classes);
    if (entry.second) ++map.num_classes;
    map.class_of.push_back(entry.first->second);
  }
  return map;
}

}  // namespace stoker
