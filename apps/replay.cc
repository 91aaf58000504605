// stoker replay: runs answers again from their receipts.
#include <algorithm>
#include <string>
#include <string_view>

#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "loading.h"
#include "output.h"
#include "stoker/llm.h"
#include "stoker/receipt.h"

namespace stoker {
namespace {

constexpr int kDiffers = 1;  // the exit code

constexpr const char* kReplayExamples =
    "  stoker generate demo --user 'What does tree mean?' --receipt receipt.json\n"
    "  stoker replay receipt.json demo\n"
    "  jq -c '.response.body.choices[].receipt' answers.jsonl | stoker replay - demo\n"
    "\nPositions are those of the receipt's ids, from 0. The exit code is 0 if all are equal, 1 if "
    "one differs.\n";

struct NumberedReceipt {
  size_t line = 0;
  Receipt receipt;
};

// One receipt on each line that is not blank.
Result<std::vector<NumberedReceipt>> parse_receipts(std::string_view text) {
  std::vector<NumberedReceipt> receipts;
  for (size_t line = 1; !text.empty(); ++line) {
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto receipt = parse_receipt(one);
    if (!receipt) return receipt.error().with("line " + std::to_string(line));
    receipts.push_back({line, *std::move(receipt)});
  }
  if (!receipts.empty()) return receipts;
  return Error{ErrorCode::kInvalidArgument, "expected a receipt, found none", ""};
}

// How an engine is opened that all of them are of; they are refused together if one is not.
Result<BoundedReplay> mode_of(const std::vector<NumberedReceipt>& receipts) {
  const Receipt& first = receipts.front().receipt;
  for (const auto& [line, receipt] : receipts) {
    const auto mode = replay_mode(receipt);
    if (!mode) return mode.error().with("line " + std::to_string(line));
    if (receipt.numeric_mode == first.numeric_mode) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "line " + std::to_string(line) + ": numeric_mode: expected " + first.numeric_mode +
                     " as in the receipt before, found " + receipt.numeric_mode +
                     ": replay them apart",
                 ""};
  }
  return replay_mode(first);
}

Result<std::vector<Request>> requests_of(const std::vector<NumberedReceipt>& receipts,
                                         const ModelInfo& model) {
  std::vector<Request> requests;
  for (const auto& [line, receipt] : receipts) {
    auto request = replay_request(receipt, model);
    if (!request) return request.error().with("line " + std::to_string(line));
    requests.push_back(*std::move(request));
  }
  return requests;
}

// "1234 \" Rome\"", or how it ended.
std::string token_text(Engine& engine, std::optional<int32_t> id, FinishReason reason) {
  if (!id) return std::string("the end (") + to_string(reason) + ")";
  return std::to_string(*id) + " " + json_string(engine.token_bytes(*id));
}

std::string difference_text(Engine& engine, const Receipt& receipt, const Choice& answer,
                            const Difference& difference) {
  std::string text = "differs at position " + std::to_string(difference.position) + ": ";
  // The run was cut where the receipt ends; had it gone on, that would be another end.
  const bool goes_on = !difference.found && answer.finish.reason == FinishReason::kLength;
  text += "expected " + token_text(engine, difference.expected, receipt.reason) + ", found ";
  text += goes_on ? "more tokens" : token_text(engine, difference.found, answer.finish.reason);
  if (difference.expected || difference.found || goes_on || answer.finish.reason != receipt.reason)
    return text;
  return text + " for another reason";
}

struct Totals {
  size_t num_differing = 0;
  int64_t num_tokens = 0;  // of receipts that are equal
};

// A line for each that differs.
Result<Totals> compare(Engine& engine, const std::vector<NumberedReceipt>& receipts,
                       const std::vector<Result<Generation>>& answers, Output& out) {
  Totals totals;
  for (size_t i = 0; i < receipts.size(); ++i) {
    const auto& [line, receipt] = receipts[i];
    const std::string place = "line " + std::to_string(line);
    if (!answers[i]) return Error(answers[i].error()).with(place);
    const auto difference = first_difference(receipt, *answers[i]);
    if (!difference) {
      totals.num_tokens += static_cast<int64_t>(receipt.ids.size());
      continue;
    }
    ++totals.num_differing;
    out.write((receipts.size() > 1 ? place + ": " : "") +
              difference_text(engine, receipt, *answers[i], *difference) + "\n");
  }
  return totals;
}

Result<std::vector<Result<Generation>>> run_again(LLM& llm,
                                                  const std::vector<NumberedReceipt>& receipts) {
  auto requests = requests_of(receipts, llm.model());
  if (!requests) return requests.error();
  int64_t num_tokens = 0;
  for (const auto& each : receipts) num_tokens += static_cast<int64_t>(each.receipt.ids.size());
  InterruptGuard guard(InterruptGuard::Second::kEndsProcess);
  LoadingProgress progress;
  bool is_interrupted = false;
  Watch watch;
  watch.on_progress = [&](const GenerateProgress& now) {
    const auto done = static_cast<double>(now.num_tokens) / static_cast<double>(num_tokens);
    progress.update({"replaying", std::min(done, 1.0)});
    is_interrupted = guard.take();
    return !is_interrupted;
  };
  auto answers = llm.generate(*std::move(requests), watch);
  if (is_interrupted) return Error{ErrorCode::kCancelled, "interrupted", ""};
  return answers;
}

int replay(const std::vector<NumberedReceipt>& receipts, const std::string& model,
           const EngineOptions& options) {
  auto engine = open_engine(model, options);
  if (!engine) return report(engine.error());
  LLM llm(*std::move(engine));
  const auto answers = run_again(llm, receipts);
  if (!answers) return report(answers.error());
  Output out;
  const auto totals = compare(llm.engine(), receipts, *answers, out);
  if (!totals) return report(totals.error());
  const std::string count = std::to_string(receipts.size());
  if (totals->num_differing == 0) {
    out.write("equal: " + (receipts.size() > 1 ? count + " receipts, " : "") +
              std::to_string(totals->num_tokens) + " tokens\n");
  } else if (receipts.size() > 1) {
    out.write("different: " + std::to_string(totals->num_differing) + " of " + count +
              " receipts\n");
  }
  if (const Result<void> written = out.result(); !written) return report(written.error());
  return totals->num_differing == 0 ? 0 : kDiffers;
}

}  // namespace

int replay_command(const Arguments& arguments) {
  std::string file, model;
  EngineOptions options;
  OptionParser parser("replay",
                      "Runs answers again from their receipts, and says that they are equal or "
                      "where the first token differs.",
                      kReplayExamples);
  parser.positional("RECEIPT", &file,
                    "a file of receipts, one a line, as generate --receipt writes it and answers "
                    "of a server have them; - is standard input");
  parser.positional("MODEL", &model, kModelHelp);
  add_threads_option(parser, &options.num_threads);
  add_weight_options(parser, &options.weights);
  add_speculation_option(parser, &options.speculation);
  if (const auto code = parser.parse(arguments)) return *code;

  const Result<std::string> text = file == "-" ? read_standard_input() : read_file(file);
  if (!text) return report(text.error());
  const auto receipts = parse_receipts(*text);
  const std::string name = file == "-" ? "standard input" : file;
  if (!receipts) return report(receipts.error().with(name));
  const auto mode = mode_of(*receipts);
  if (!mode) return report(mode.error().with(name));
  options.bounded_replay = *mode;
  return replay(*receipts, model, options);
}

}  // namespace stoker
