#include "stoker/tokenize.h"

#include "base/mapped_file.h"
#include "base/try.h"
#include "checkpoint/checkpoint.h"
#include "stoker/engine.h"
#include "tokenizer/tokenizer.h"

namespace stoker {
namespace {

Result<Tokenizer> open_tokenizer(const std::string& model) {
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(const std::string json, read_file(path + "/tokenizer.json", kMaxTokenizerBytes));
  return Tokenizer::parse(json).with(path + "/tokenizer.json");
}

}  // namespace

Result<std::vector<int32_t>> tokenize(const std::string& model, std::string_view text) {
  TRY_ASSIGN(const Tokenizer tokenizer, open_tokenizer(model));
  return tokenizer.encode(text, Tokenizer::AddedTokens::kMatch);
}

Result<std::string> detokenize(const std::string& model, const std::vector<int32_t>& ids) {
  TRY_ASSIGN(const Tokenizer tokenizer, open_tokenizer(model));
  for (const int32_t id : ids) {
    if (id < 0 || id >= tokenizer.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   "expected token ids from 0 to " + std::to_string(tokenizer.size() - 1) +
                       ", found " + std::to_string(id),
                   "ids"};
    }
  }
  return tokenizer.decode(ids, /*skip_special=*/false);
}

}  // namespace stoker
