// stoker generate: one prompt, one answer.
#include <cstdio>
#include <string>

#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "output.h"

namespace stoker {
namespace {

constexpr const char* kGenerateExamples =
    "  stoker generate demo --user 'What is the capital of France?'\n"
    "  stoker generate demo --prompt 'The capital of France is' --max-tokens 8\n"
    "  stoker generate demo --user 'What does tree mean?' --temperature 0.7 --seed 1 --json\n"
    "  stoker generate demo --ids 0,270,281 --stop . --stop '!'\n"
    "  stoker generate demo --prompt 'The capital of Peru is' --n 4 --receipt receipts.jsonl\n";

struct GenerateOptions {
  std::string model;
  std::optional<std::string> prompt, user, prompt_file, ids;
  GenerationOptions generation;
  std::vector<std::string> stop;
  std::optional<std::string> stop_token_ids;
  int n = 1;
  int min_tokens = 0;
  bool ignore_eos = false;
  std::optional<int32_t> logprobs;
  bool json = false;
  std::optional<std::string> receipt;
};

/// What a choice amounts to, for --json and where there are several.
struct Answer {
  std::vector<int32_t> ids;
  std::vector<TokenDetail> details;
  std::string text;
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

std::string logprob_json(const PositionLogprobs& at) {
  std::vector<std::string> top;
  for (const TokenLogprob& token : at.top) {
    top.push_back(JsonObject()
                      .add("id", std::to_string(token.id))
                      .add("logprob", json_number(token.logprob))
                      .text());
  }
  return JsonObject()
      .add("logprob", json_number(at.logprob))
      .add("rank", std::to_string(at.rank))
      .add("top", json_array(top))
      .text();
}

/// The members that each choice has.
void add_choice(const Answer& answer, const Finish& finish, bool has_text, JsonObject& object) {
  object.add("ids", json_ids(answer.ids))
      .add("text", has_text ? json_string(answer.text) : "null")
      .add("finish_reason", json_string(to_string(finish.reason)))
      .add("seed", std::to_string(finish.seed));
  if (answer.details.empty()) return;
  std::vector<std::string> logprobs;
  for (const TokenDetail& detail : answer.details)
    logprobs.push_back(logprob_json(detail.logprobs));
  object.add("logprobs", json_array(logprobs));
}

void print_json(const Stream& stream, const std::vector<Answer>& answers,
                const std::vector<Finish>& finishes, bool has_text, Output& out) {
  const Timings& timings = finishes.front().timings;
  JsonObject seconds;
  seconds.add("queued_s", json_number(timings.queued.count()))
      .add("first_token_s", json_number(timings.first_token.count()))
      .add("total_s", json_number(timings.total.count()));
  JsonObject object;
  object.add("prompt_ids", json_ids(stream.prompt_ids()));
  add_choice(answers.front(), finishes.front(), has_text, object);
  object.add("timings", seconds.text());
  std::vector<std::string> others;
  for (size_t i = 1; i < answers.size(); ++i) {
    JsonObject other;
    add_choice(answers[i], finishes[i], has_text, other);
    others.push_back(other.text());
  }
  if (!others.empty()) object.add("others", json_array(others));
  out.write(object.text());
}

std::string text_of(const Answer& answer, bool has_text) {
  if (has_text) return answer.text;
  std::string text;
  for (const int32_t id : answer.ids) text += std::to_string(id) + " ";
  return text;
}

int exit_code_of(const std::vector<Finish>& finishes) {
  for (const Finish& finish : finishes) {
    if (finish.reason == FinishReason::kError && finish.error) return report(*finish.error);
    if (finish.reason == FinishReason::kCancelled)
      return report({ErrorCode::kCancelled, "interrupted", ""});
  }
  return 0;
}

std::string receipts_of(const std::vector<Finish>& finishes) {
  std::string lines;
  for (const Finish& finish : finishes) {
    if (!finish.receipt.empty()) lines += finish.receipt + "\n";
  }
  return lines;
}

// One choice is printed as it comes, several when all are there.
int answer_and_print(Engine& engine, Request request, bool json, ResultFile& receipts) {
  Result<std::unique_ptr<Stream>> stream = engine.submit(std::move(request));
  if (!stream) return report(stream.error());
  InterruptGuard guard(InterruptGuard::Second::kEndsProcess);
  Output out;
  const bool has_text = engine.model().has_text;
  std::vector<Answer> answers(static_cast<size_t>((*stream)->num_choices()));
  const std::vector<Finish> finishes = run_to_end(**stream, &guard, [&](const Event& event) {
    Answer& answer = answers[static_cast<size_t>(event.choice)];
    answer.ids.insert(answer.ids.end(), event.ids.begin(), event.ids.end());
    answer.details.insert(answer.details.end(), event.details.begin(), event.details.end());
    answer.text += event.reasoning + event.text;
    if (!json && answers.size() == 1) print_event(event, has_text, out);
  });
  if (json) {
    print_json(**stream, answers, finishes, has_text, out);
  } else if (answers.size() > 1) {
    for (const Answer& answer : answers) {
      out.write(text_of(answer, has_text));
      out.end_line();
    }
  }
  out.end_line();
  const int code = exit_code_of(finishes);
  for (const Result<void>& written : {out.result(), receipts.finish(receipts_of(finishes))}) {
    if (code == 0 && !written) return report(written.error());
  }
  return code;
}

Result<Request> request_of(const GenerateOptions& options) {
  Request request;
  request.sampling = options.generation.sampling;
  request.max_tokens = options.generation.max_tokens;
  request.stop = options.stop;
  request.n = options.n;
  request.min_tokens = options.min_tokens;
  request.ignore_eos = options.ignore_eos;
  request.logprobs = options.logprobs;
  request.receipt = options.receipt.has_value();
  if (options.stop_token_ids) {
    auto ids = parse_ids(*options.stop_token_ids, "--stop-token-ids");
    if (!ids) return ids.error();
    request.stop_token_ids = *std::move(ids);
  }
  if (const Result<void> set = set_prompt(options, &request); !set) return set.error();
  return request;
}

}  // namespace

int generate_command(const Arguments& arguments) {
  GenerateOptions options;
  OptionParser parser("generate", "Answers one prompt and prints the answer as it comes.",
                      kGenerateExamples);
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
  parser.option("--stop-token-ids", "1,2,3", &options.stop_token_ids,
                "End the answer at these tokens, too");
  parser.option("--min-tokens", "N", &options.min_tokens,
                "Tokens before which neither the end of text nor a stop ends the answer [0]");
  parser.flag("--ignore-eos", &options.ignore_eos, "Go on behind the end of text");
  parser.option("--n", "N", &options.n,
                "Answers, each with a seed of its own, a line behind each [1]");
  parser.option("--logprobs", "N", &options.logprobs,
                "With --json, the log-probability of each token, and of the N likeliest");
  parser.flag("--json", &options.json,
              "Print one object at the end: prompt_ids, ids, text, finish_reason, seed, logprobs, "
              "timings, and the others of --n");
  parser.option("--receipt", "FILE", &options.receipt,
                "Where to write what stoker replay gives the same answer again by, a line for each "
                "answer");
  if (const auto code = parser.parse(arguments)) return *code;
  const int num_prompts = options.prompt.has_value() + options.user.has_value() +
                          options.prompt_file.has_value() + options.ids.has_value();
  if (num_prompts != 1) {
    return parser.refuse("expected one of --prompt, --user, --prompt-file and --ids, found " +
                         std::to_string(num_prompts) + " of them");
  }

  if (options.logprobs && !options.json)
    return parser.refuse("--logprobs: expected only with --json, found it alone");
  Result<Request> request = request_of(options);
  if (!request) return report(request.error());
  Result<ResultFile> receipts = ResultFile::open(options.receipt);
  if (!receipts) return report(receipts.error());
  EngineOptions engine_options;
  engine_options.num_threads = options.generation.num_threads;
  engine_options.weights = options.generation.weights;
  engine_options.speculation = options.generation.speculation;
  Result<std::unique_ptr<Engine>> engine = open_engine(options.model, engine_options);
  if (!engine) return report(engine.error());
  return answer_and_print(**engine, *std::move(request), options.json, *receipts);
}

}  // namespace stoker
