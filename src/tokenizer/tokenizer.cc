#include "tokenizer/tokenizer.h"

#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "base/utf8.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer_file.h"

namespace stoker {

struct Tokenizer::State {
  explicit State(TokenizerFile file)
      : symbols(std::move(file.symbols)),
        bytes(std::move(file.bytes)),
        special(symbols.size()),
        bpe(file.byte_ids, symbols.size(), file.merges),
        added(file.added) {
    for (const AddedToken& token : file.added)
      special[static_cast<size_t>(token.id)] = token.special;
  }

  void encode_run(std::string_view run, Bpe::Workspace& workspace,
                  std::vector<int32_t>& ids) const {
    for (const std::string_view piece : pretokenize(run)) bpe.encode(piece, workspace, ids);
  }

  bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < symbols.size(); }

  std::vector<std::string> symbols;  // [ids]
  std::vector<std::string> bytes;    // [ids]
  std::vector<bool> special;         // [ids]
  Bpe bpe;
  AddedTokenFinder added;
};

Result<Tokenizer> Tokenizer::parse(std::string_view json) {
  TRY_ASSIGN(auto file, read_tokenizer_file(json));
  return Tokenizer(std::make_unique<State>(std::move(file)));
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

int32_t Tokenizer::size() const {
  return static_cast<int32_t>(state_->symbols.size());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, AddedTokens added) const {
  std::string repaired;
  if (!is_valid_utf8(text)) text = repaired = repair_utf8(text);
  Bpe::Workspace workspace;
  std::vector<int32_t> ids;
  if (added == AddedTokens::kIgnore) {
    state_->encode_run(text, workspace, ids);
    return ids;
  }
  for (const auto& segment : state_->added.split(text)) {
    if (segment.id) {
      ids.push_back(*segment.id);
    } else {
      state_->encode_run(segment.text, workspace, ids);
    }
  }
  return ids;
}

std::optional<int32_t> Tokenizer::added_token(std::string_view spelling) const {
  return state_->added.find(spelling);
}

std::string_view Tokenizer::bytes(int32_t id) const {
  CHECK(state_->has(id), "an id of the vocabulary");
  return state_->bytes[static_cast<size_t>(id)];
}

std::string_view Tokenizer::symbol(int32_t id) const {
  CHECK(state_->has(id), "an id of the vocabulary");
  return state_->symbols[static_cast<size_t>(id)];
}

bool Tokenizer::is_special(int32_t id) const {
  CHECK(state_->has(id), "an id of the vocabulary");
  return state_->special[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (state_->has(id) && !(skip_special && is_special(id))) text += bytes(id);
  }
  return repair_utf8(text);
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string Detokenizer::push(int32_t id) {
  if (id < 0 || id >= tokenizer_->size()) return {};
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  std::string text = std::move(held_);
  text += tokenizer_->bytes(id);
  const size_t whole = text.size() - incomplete_utf8_tail(text);
  held_ = text.substr(whole);
  text.resize(whole);
  return repair_utf8(text);
}

std::string Detokenizer::finish() {
  return repair_utf8(std::exchange(held_, {}));
}

}  // namespace stoker
