#include "tokenizer/tokenizer_file.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "tokenizer/byte_symbols.h"
#include "tokenizer/tokenizer_shape.h"

namespace stoker {
namespace {

constexpr size_t kMaxDepth = 32;  // of the JSON; the released file has 6
constexpr size_t kMaxSpellingBytes =
    512;  // of an added token, as it bounds the time of a search; the released have 48

std::string item_place(const char* array, size_t i) {
  return std::string(array) + "[" + std::to_string(i) + "]";
}

Error corrupt(const std::string& place, const std::string& expected, const Json* found) {
  return unexpected(ErrorCode::kCorruptData, place, expected, found);
}

Result<Json> parse_root(std::string_view text) {
  const JsonLimits limits{.max_depth = kMaxDepth, .repeated_keys_allowed = false};
  auto root = Json::parse(text, limits);
  if (!root) return Error{ErrorCode::kCorruptData, root.error().message, ""};
  if (auto shape = check_tokenizer_shape(*root); !shape) return std::move(shape).error();
  return root;
}

using Ids = boost::unordered_flat_map<std::string_view, int64_t, std::hash<std::string_view>>;

// Fills a TokenizerFile part by part; each part relies on those before it.
class Reader {
 public:
  explicit Reader(const Json& root) : root_(root), model_(*root.find("model")) {}

  Result<TokenizerFile> read() {
    for (const auto part : {&Reader::read_vocab, &Reader::read_added, &Reader::place_ids,
                            &Reader::spell_ids, &Reader::read_merges}) {
      if (auto done = (this->*part)(); !done) return std::move(done).error();
    }
    return std::move(file_);
  }

 private:
  Result<void> read_vocab() {
    const Json& vocab = *model_.find("vocab");
    if (!vocab.is_object()) return corrupt("model.vocab", "an object", &vocab);
    vocab_.reserve(vocab.members().size());
    for (const auto& [symbol, id] : vocab.members()) {
      const auto number = id.as_int();
      if (!number) return corrupt("model.vocab[" + json_quote(symbol) + "]", "an id", &id);
      vocab_.emplace(symbol, *number);
    }
    return {};
  }

  Result<void> read_added() {
    const Json& added = *root_.find("added_tokens");
    if (!added.is_array()) return corrupt("added_tokens", "an array", &added);
    for (size_t i = 0; i < added.items().size(); ++i) {
      if (auto done = read_added_token(added.items()[i], item_place("added_tokens", i)); !done)
        return done;
    }
    return {};
  }

  Result<void> read_added_token(const Json& item, const std::string& place) {
    if (auto shape = check_added_token_shape(item, place); !shape) return shape;
    const std::string& spelling = item.find("content")->as_string();
    if (!item.find("content")->is_string() || spelling.empty() ||
        spelling.size() > kMaxSpellingBytes) {
      return corrupt(place + ".content",
                     "a string of 1 to " + std::to_string(kMaxSpellingBytes) + " bytes",
                     item.find("content"));
    }
    const auto id = item.find("id")->as_int();
    if (!id) return corrupt(place + ".id", "an id", item.find("id"));
    for (const char* flag : {"normalized", "special"}) {
      if (!item.find(flag)->is_bool())
        return corrupt(place + "." + flag, "a boolean", item.find(flag));
    }
    if (!added_.emplace(spelling, *id).second) {
      return corrupt(place + ".content", "a spelling not seen before", item.find("content"));
    }
    const auto in_vocab = vocab_.find(spelling);
    if (in_vocab != vocab_.end() && in_vocab->second != *id) {
      return corrupt(place + ".id", std::to_string(in_vocab->second) + " as in model.vocab",
                     item.find("id"));
    }
    file_.added.push_back(
        {static_cast<int32_t>(*id), spelling, item.find("normalized")->as_bool(),
         item.find("special")->as_bool()});  // place_ids() refuses an id that the cast changes
    return {};
  }

  // Ids of the vocabulary and of the added tokens that are not in it are 0 .. n - 1, each once.
  Result<void> place_ids() {
    size_t count = vocab_.size();
    for (const AddedToken& token : file_.added) count += vocab_.contains(token.spelling) ? 0 : 1;
    file_.symbols.resize(count);
    for (const auto& [symbol, id] : model_.find("vocab")->members()) {
      if (auto done = place_id(symbol, *id.as_int(), "model.vocab"); !done) return done;
    }
    for (const AddedToken& token : file_.added) {
      if (vocab_.contains(token.spelling)) continue;
      if (auto done = place_id(token.spelling, added_.at(token.spelling), "added_tokens"); !done)
        return done;
    }
    return {};
  }

  Result<void> place_id(const std::string& symbol, int64_t id, const char* where) {
    const auto wrong = [&](const std::string& expected) {
      const Json found = Json::integer(id);
      return corrupt(std::string(where) + " " + json_quote(symbol), expected, &found);
    };
    if (symbol.empty()) return wrong("a symbol that is not empty");
    if (id < 0 || id >= static_cast<int64_t>(file_.symbols.size()))
      return wrong("an id of 0 .. " + std::to_string(file_.symbols.size() - 1));
    std::string& slot = file_.symbols[static_cast<size_t>(id)];
    if (!slot.empty()) return wrong("an id that " + json_quote(slot) + " does not have");
    slot = symbol;
    return {};
  }

  Result<void> spell_ids() {
    file_.bytes.reserve(file_.symbols.size());
    for (const std::string& symbol : file_.symbols) {
      auto bytes = bytes_of_symbols(symbol);
      if (!bytes && !added_.contains(symbol)) {
        const Json found = Json::string(symbol);
        return corrupt("model.vocab", "symbols of the byte-level alphabet", &found);
      }
      file_.bytes.push_back(bytes ? *std::move(bytes) : symbol);
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      const std::string symbol = symbols_of_bytes(std::string(1, static_cast<char>(byte)));
      const auto id = vocab_.find(symbol);
      if (id == vocab_.end())
        return corrupt("model.vocab", "a symbol " + json_quote(symbol), nullptr);
      file_.byte_ids[byte] = static_cast<int32_t>(id->second);
    }
    return {};
  }

  Result<void> read_merges() {
    const Json& merges = *model_.find("merges");
    if (!merges.is_array()) return corrupt("model.merges", "an array", &merges);
    boost::unordered_flat_set<uint64_t> seen(merges.items().size());
    file_.merges.reserve(merges.items().size());
    std::string made;
    for (size_t i = 0; i < merges.items().size(); ++i) {
      const Json& item = merges.items()[i];
      const auto pair = split_merge(item);
      if (!pair)
        return corrupt(item_place("model.merges", i), "two symbols, as \"a b\" or [\"a\", \"b\"]",
                       &item);
      const auto left = vocab_.find(pair->first);
      const auto right = vocab_.find(pair->second);
      const auto result = vocab_.find(made.assign(pair->first).append(pair->second));
      if (left == vocab_.end() || right == vocab_.end() || result == vocab_.end()) {
        return corrupt(item_place("model.merges", i),
                       "two symbols of the vocabulary that make a third", &item);
      }
      const auto key =
          static_cast<uint64_t>(left->second) << 32 | static_cast<uint64_t>(right->second);
      if (!seen.insert(key).second) {
        return corrupt(item_place("model.merges", i), "a pair not seen before", &item);
      }
      file_.merges.push_back({static_cast<int32_t>(left->second),
                              static_cast<int32_t>(right->second),
                              static_cast<int32_t>(result->second)});
    }
    return {};
  }

  static std::optional<std::pair<std::string_view, std::string_view>> split_merge(
      const Json& item) {
    if (item.is_string()) {
      const std::string_view text = item.as_string();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        return std::nullopt;
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
    const auto& parts = item.items();
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) return std::nullopt;
    return std::pair<std::string_view, std::string_view>(parts[0].as_string(),
                                                         parts[1].as_string());
  }

  const Json& root_;
  const Json& model_;
  Ids vocab_;  // as the file has them, borrowed from root_
  Ids added_;
  TokenizerFile file_;
};

}  // namespace

Result<TokenizerFile> read_tokenizer_file(std::string_view json) {
  TRY_ASSIGN(const Json root, parse_root(json));
  return Reader(root).read();
}

}  // namespace stoker
