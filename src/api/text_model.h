// What of a model is about text: its tokenizer, the chat format, and Engram's classes of ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat.h"
#include "checkpoint/config.h"
#include "stoker/result.h"
#include "tokenizer/tokenizer.h"

namespace stoker {

/// Immutable; its parts borrow from each other.
class TextModel {
 public:
  /// Of the text of tokenizer.json, where there is one. Errors: kCorruptData for what is not one,
  /// or not of this model; kInvalidArgument where it is missing and Engram needs it.
  static Result<std::unique_ptr<const TextModel>> make(const std::optional<std::string>& json,
                                                       const ModelConfig& config);

  TextModel(const TextModel&) = delete;
  TextModel& operator=(const TextModel&) = delete;

  const Tokenizer* tokenizer() const {
    return tokenizer_ ? &*tokenizer_ : nullptr;
  }  ///< null: ids only
  const chat::Encoder* encoder() const {
    return encoder_ ? &*encoder_ : nullptr;
  }  ///< null: no chat format
  const std::optional<Error>& why_no_chat() const { return why_no_chat_; }  ///< with a null encoder
  /// Engram's class of each id; empty for a model without Engram.
  const std::vector<int32_t>& token_map() const { return token_map_; }

 private:
  TextModel() = default;
  Result<void> read_tokenizer(const std::optional<std::string>& json, const ModelConfig& config);

  std::optional<Tokenizer> tokenizer_;
  std::optional<chat::Encoder> encoder_;
  std::optional<Error> why_no_chat_;
  std::vector<int32_t> token_map_;
};

}  // namespace stoker
