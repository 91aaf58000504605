#include "api/text_model.h"

#include <numeric>
#include <utility>

#include "base/try.h"

namespace stoker {
namespace {

// Ids beyond the tokenizer are in class 0. Without a tokenizer only a map that merges nothing is
// known: the identity.
Result<std::vector<int32_t>> engram_classes(const Tokenizer* tokenizer, const ModelConfig& c) {
  if (c.engram_layer_ids.empty()) return std::vector<int32_t>{};
  if (tokenizer == nullptr) {
    if (c.engram_compressed_vocab_size != c.vocab_size) {
      return Error{
          ErrorCode::kInvalidArgument,
          "tokenizer.json is missing, and without it the Engram token map is known only where "
          "engram_compressed_vocab_size equals vocab_size: expected " +
              std::to_string(c.vocab_size) + ", found " +
              std::to_string(c.engram_compressed_vocab_size),
          ""};
    }
    std::vector<int32_t> identity(static_cast<size_t>(c.vocab_size));
    std::iota(identity.begin(), identity.end(), 0);
    return identity;
  }
  EngramMap map = engram_map(*tokenizer);
  if (map.num_classes != c.engram_compressed_vocab_size) {
    return Error{ErrorCode::kCorruptData,
                 "the Engram token map of tokenizer.json: expected " +
                     std::to_string(c.engram_compressed_vocab_size) +
                     " classes (engram_compressed_vocab_size of config.json), found " +
                     std::to_string(map.num_classes),
                 ""};
  }
  map.class_of.resize(static_cast<size_t>(c.vocab_size));
  return std::move(map.class_of);
}

}  // namespace

Result<std::unique_ptr<const TextModel>> TextModel::make(const std::optional<std::string>& json,
                                                         const ModelConfig& config) {
  std::unique_ptr<TextModel> made(new TextModel);
  if (auto read = made->read_tokenizer(json, config); !read) return std::move(read).error();
  TRY_ASSIGN(made->token_map_, engram_classes(made->tokenizer(), config));
  return std::unique_ptr<const TextModel>(std::move(made));
}

Result<void> TextModel::read_tokenizer(const std::optional<std::string>& json,
                                       const ModelConfig& config) {
  if (!json) {
    why_no_chat_ =
        Error{ErrorCode::kUnsupported, "the model has no tokenizer.json: give token ids", ""};
    return {};
  }
  auto parsed = Tokenizer::parse(*json);
  if (!parsed) return std::move(parsed).error().with("tokenizer.json");
  tokenizer_ = *std::move(parsed);
  if (tokenizer_->size() > config.vocab_size) {
    return Error{ErrorCode::kCorruptData,
                 "tokenizer.json: expected at most " + std::to_string(config.vocab_size) +
                     " tokens (vocab_size of config.json), found " +
                     std::to_string(tokenizer_->size()),
                 ""};
  }
  auto encoder = chat::Encoder::create(*tokenizer_);
  if (encoder) {
    encoder_ = *std::move(encoder);
  } else {
    why_no_chat_ = encoder.error();
  }
  return {};
}

}  // namespace stoker
