#include "chat/chat.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/try.h"
#include "chat/render.h"

namespace stoker::chat {
namespace {

constexpr int32_t kAbsent = -1;

}  // namespace

Encoder::Encoder(const Tokenizer& tokenizer, const Ids& ids)
    : tokenizer_(&tokenizer),
      ids_(ids),
      end_of_turn_(tokenizer.added_token("<|EOT|>").value_or(kAbsent)) {}

Result<Encoder> Encoder::create(const Tokenizer& tokenizer) {
  Ids ids{};
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::optional<int32_t> id = tokenizer.added_token(kControlSpellings[i]);
    if (!id.has_value() && i < kFirstGrounding) {
      return Error{ErrorCode::kUnsupported,
                   "chat needs the added token " + std::string(kControlSpellings[i]) +
                       ", which the tokenizer lacks",
                   ""};
    }
    ids[i] = id.value_or(kAbsent);
  }
  return Encoder(tokenizer, ids);
}

Result<Prompt> Encoder::encode(const Conversation& conversation) const {
  TRY_ASSIGN(const Rendered rendered, render(conversation));
  Prompt prompt{
      {},
      rendered.start == ReplyStart::kReasoningLead || rendered.start == ReplyStart::kReasoning,
      rendered.thinking.effort,
      rendered.images,
      rendered.start,
      rendered.has_calls};
  const std::string_view text = rendered.text;
  const auto append_text = [&](size_t begin, size_t end) {
    const std::vector<int32_t> ids =
        tokenizer_->encode(text.substr(begin, end - begin), Tokenizer::AddedTokens::kIgnore);
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
  };
  size_t run_begin = 0;
  for (const ControlMark& mark : rendered.marks) {
    if (id(mark.control) == kAbsent) continue;  // stays text, in the run around it
    append_text(run_begin, mark.begin);
    prompt.ids.push_back(id(mark.control));
    run_begin = mark.begin + spelling(mark.control).size();
  }
  append_text(run_begin, text.size());
  return prompt;
}

bool Encoder::is_hidden(int32_t id) const {
  if (id < 0 || id >= tokenizer_->size()) return true;
  const auto* known = std::find(ids_.begin(), ids_.end(), id);
  if (known != ids_.end()) {
    const auto control = static_cast<Control>(known - ids_.begin());
    return control < Control::kRef && control != Control::kThink &&
           control != Control::kEndOfThink && control != Control::kDsml;
  }
  if (id == end_of_turn_ || tokenizer_->is_special(id)) return true;
  // What the vendor's services use among themselves: tasks, search, images, tables.
  return id > this->id(Control::kLatestReminder) &&
         tokenizer_->added_token(tokenizer_->symbol(id)) == id;
}

}  // namespace stoker::chat
