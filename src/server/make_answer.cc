#include "server/make_answer.h"

#include <utility>

#include "server/anthropic_answer.h"
#include "server/generate_answer.h"
#include "server/openai_answer.h"
#include "server/responses_answer.h"

namespace stoker {

std::unique_ptr<Answer> make_answer(const AnswerForm& form, const std::string& request_id,
                                    std::vector<std::unique_ptr<Stream>> streams,
                                    const Engine& engine) {
  switch (form.route) {
    case Route::kMessages:
      return std::make_unique<AnthropicAnswer>(form, request_id, std::move(streams));
    case Route::kResponses:
      return std::make_unique<ResponsesAnswer>(form, request_id, std::move(streams), engine);
    case Route::kGenerate:
      return std::make_unique<GenerateAnswer>(form, request_id, std::move(streams), engine);
    default:
      return std::make_unique<OpenAiAnswer>(form, request_id, std::move(streams), engine);
  }
}

}  // namespace stoker
