// stoker generate: one prompt, one answer.
#include <cstdio>
#include <string>

#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "output.h"

namespace stoker {
namespace {

constexpr const char* kExamples =
    "  stoker generate demo --user 'What is the capital of France?'\n"
    "  stoker generate demo --prompt 'The capital of France is' --max-tokens 8\n"
    "  stoker generate demo --user 'What does tree mean?' --temperature 0.7 --seed 1 --json\n"
    "  stoker generate demo --ids 0,270,281 --stop . --stop '!'\n";

struct GenerateOptions {
  std::string model;
  std::optional<std::string> prompt, user, prompt_file, ids;
  GenerationOptions generation;
  std::vector<std::string> stop;
  bool json = false;
};

/// What an answer amounts to, for --json.
struct Answer {
  std::vector<int32_t> ids;
  std::string text;
  Finish finish;
};

/// The one prompt that was given, as the request has it.
Result<void> set_prompt(const GenerateOptions& options, Request* request) {
  if (options.prompt) {
    request->prompt = TextPrompt{*options.prompt, true};
  } else if (options.user) {
    request->prompt = ChatPrompt{{{"user", {*options.user}, ""}}, "disabled", {}};
  } else if (options.prompt_file) {
    Result<std::string> text = read_file(*options.prompt_file);
    if (!text) return text.error();
    request->prompt = TextPrompt{*std::move(text), true};
  } else {
    Result<std::vector<int32_t>> ids = parse_ids(*options.ids, "--ids");
    if (!ids) return ids.error();
    request->prompt = TokenPrompt{*std::move(ids)};
  }
  return {};
}

void print_event(const Event& event, bool has_text, Output& out) {
  if (has_text) {
    out.write(event.reasoning + event.text);
    return;
  }
  for (const int32_t id : event.ids) out.write(std::to_string(id) + " ");
}

void print_json(const Stream& stream, const Answer& answer, bool has_text, Output& out) {
  const Timings& timings = answer.finish.timings;
  JsonObject seconds;
  seconds.add("queued_s", json_number(timings.queued.count()))
      .add("first_token_s", json_number(timings.first_token.count()))
      .add("total_s", json_number(timings.total.count()));
  JsonObject object;
  object.add("prompt_ids", json_ids(stream.prompt_ids()))
      .add("ids", json_ids(answer.ids))
      .add("text", has_text ? json_string(answer.text) : "null")
      .add("finish_reason", json_string(to_string(answer.finish.reason)))
      .add("seed", std::to_string(stream.seed()))
      .add("timings", seconds.text());
  out.write(object.text());
}

int exit_code_of(const Finish& finish) {
  if (finish.reason == FinishReason::kError && finish.error) return report(*finish.error);
  if (finish.reason == FinishReason::kCancelled)
    return report({ErrorCode::kCancelled, "interrupted", ""});
  return 0;
}

int answer_and_print(Engine& engine, Request request, bool json) {
  Result<std::unique_ptr<Stream>> stream = engine.submit(std::move(request));
  if (!stream) return report(stream.error());
  InterruptGuard guard(InterruptGuard::Second::kEndsProcess);
  Output out;
  const bool has_text = engine.model().has_text;
  Answer answer;
  answer.finish = run_to_end(**stream, &guard, [&](const Event& event) {
    answer.ids.insert(answer.ids.end(), event.ids.begin(), event.ids.end());
    answer.text += event.reasoning + event.text;
    if (!json) print_event(event, has_text, out);
  });
  if (json) print_json(**stream, answer, has_text, out);
  out.end_line();
  const int code = exit_code_of(answer.finish);
  const Result<void> written = out.result();
  return code == 0 && !written ? report(written.error()) : code;
}

}  // namespace

int generate_command(const Arguments& arguments) {
  GenerateOptions options;
  OptionParser parser("generate", "Answers one prompt and prints the answer as it comes.",
                      kExamples);
  parser.positional("MODEL", &options.model, kModelHelp);
  parser.option("--prompt", "TEXT", &options.prompt,
                "Raw text to continue, after the token that begins a text");
  parser.option("--user", "TEXT", &options.user,
                "What a user says in a chat, answered without thinking");
  parser.option("--prompt-file", "FILE", &options.prompt_file, "As --prompt, read from a file");
  parser.option("--ids", "1,2,3", &options.ids, "Token ids to continue, nothing added");
  add_generation_options(parser, &options.generation);
  parser.option("--stop", "TEXT", &options.stop,
                "End the answer before this text; may be given several times");
  parser.flag("--json", &options.json,
              "Print one object at the end: prompt_ids, ids, text, finish_reason, seed, timings");
  if (const auto code = parser.parse(arguments)) return *code;
  const int num_prompts = options.prompt.has_value() + options.user.has_value() +
                          options.prompt_file.has_value() + options.ids.has_value();
  if (num_prompts != 1) {
    return parser.refuse("expected one of --prompt, --user, --prompt-file and --ids, found " +
                         std::to_string(num_prompts) + " of them");
  }

  Request request;
  request.sampling = options.generation.sampling;
  request.max_tokens = options.generation.max_tokens;
  request.stop = options.stop;
  if (const Result<void> set = set_prompt(options, &request); !set) return report(set.error());
  EngineOptions engine_options;
  engine_options.num_threads = options.generation.num_threads;
  engine_options.weights = options.generation.weights;
  Result<std::unique_ptr<Engine>> engine = open_engine(options.model, engine_options);
  if (!engine) return report(engine.error());
  return answer_and_print(**engine, std::move(request), options.json);
}

}  // namespace stoker
