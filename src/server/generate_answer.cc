#include "server/generate_answer.h"

#include <utility>

#include "base/json.h"
#include "server/answer_json.h"
#include "server/identity.h"

namespace stoker {

GenerateAnswer::GenerateAnswer(const AnswerForm& form, const std::string& request_id,
                               std::vector<std::unique_ptr<Stream>> streams, const Engine& engine)
    : Answer(std::move(streams), form.stream, true),
      form_(form),
      request_id_(request_id),
      engine_(engine),
      logprobs_(engine, form.route, true),
      told_(choices().size()) {}

void GenerateAnswer::tell(Choice& choice, Event& event, std::string& out) {
  ToldIds& told = told_[choice.index];
  told.ids.insert(told.ids.end(), event.ids.begin(), event.ids.end());
  const std::string entries = logprobs_.entries_of(event);
  told.logprobs += (told.logprobs.empty() || entries.empty() ? "" : ",") + entries;
  if (!event.prompt_logprobs.empty()) prompt_logprobs_ = std::move(event.prompt_logprobs);
  if (!is_streamed()) return;
  const std::string head = "data: {\"request_id\":" + json_quote(request_id_) + ",\"choices\":[";
  const std::string usage_member = ",\"usage\":";
  if (!told.ids.empty() || choice.finish) {
    out += head + choice_json(choice) + "]" + usage_member +
           (form_.continuous_usage_stats ? usage_json(usage(), finished()) : "null") + "}\n\n";
  }
  if (!finished()) return;
  if (form_.include_usage) out += head + "]" + usage_member + usage_json(usage(), true) + "}\n\n";
  out += kDoneEvent;
}

void GenerateAnswer::tell_failure(const HttpError& error, std::string& out) const {
  out += "data: " + error_json(error) + "\n\n" + kDoneEvent;
}

// Takes what is told of it.
std::string GenerateAnswer::choice_json(const Choice& choice) {
  const ToldIds told = std::exchange(told_[choice.index], {});
  std::string out =
      "{\"index\":" + std::to_string(choice.index) + ",\"token_ids\":" + ids_json(told.ids) +
      ",\"logprobs\":" + (form_.logprobs ? "{\"content\":[" + told.logprobs + "]}" : "null");
  if (!choice.finish) return out + ",\"finish_reason\":null}";
  return out + "," + finish_members(*choice.finish, choice.finish->reason) +
         ",\"seed\":" + seed_json(choice.finish->seed) + receipt_member(*choice.finish) + "}";
}

std::string GenerateAnswer::body() {
  std::string out = "{\"request_id\":" + json_quote(request_id_) +
                    ",\"model\":" + json_quote(form_.model) +
                    ",\"created\":" + std::to_string(unix_seconds()) + ",\"choices\":[";
  for (const Choice& choice : choices()) out += (choice.index > 0 ? "," : "") + choice_json(choice);
  out += "],\"usage\":" + usage_json(usage(), true) + ",\"prompt_logprobs\":";
  out += prompt_logprobs_.empty()
             ? "null"
             : prompt_logprobs_json(engine_, streams().front()->prompt_ids(), prompt_logprobs_);
  return out + ",\"kv_transfer_params\":null}";
}

}  // namespace stoker
