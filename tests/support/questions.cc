#include "support/questions.h"

#include <algorithm>
#include <string_view>

#include "api/resolve.h"
#include "base/check.h"

namespace stoker::testing {
namespace {

// Of a blank and at least four small letters: a word that the model learned as one.
bool is_word(std::string_view bytes) {
  return bytes.size() >= 5 && bytes[0] == ' ' &&
         std::ranges::all_of(bytes.substr(1), [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

std::vector<int32_t> question(const LoadedModel& model, const std::string& text) {
  Request request;
  request.prompt = ChatPrompt{
      .messages = {{"user", {text}, ""}}, .thinking = "disabled", .reasoning_effort = {}};
  const auto encoded = encode_prompt(request, model);
  CHECK(encoded, "a question is a prompt");
  return encoded->ids;
}

std::vector<std::vector<int32_t>> questions(const LoadedModel& model, int64_t count) {
  const Tokenizer& tokenizer = *model.tokenizer();
  std::vector<std::vector<int32_t>> out;
  // From the end: words that are rarer, and whole.
  for (int32_t id = tokenizer.size(); id-- > 0 && static_cast<int64_t>(out.size()) < count;) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (is_word(bytes)) out.push_back(question(model, "What does" + std::string(bytes) + " mean?"));
  }
  CHECK(static_cast<int64_t>(out.size()) == count, "the vocabulary has so many words");
  return out;
}

}  // namespace stoker::testing
