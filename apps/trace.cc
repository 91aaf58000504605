// stoker trace: what a model computes for given ids, in a file.
#include "stoker/trace.h"

#include <string>

#include "commands.h"
#include "common.h"
#include "loading.h"

namespace stoker {
namespace {

constexpr const char* kTraceExamples =
    "  stoker trace demo --ids-file ids.txt --out trace.safetensors\n"
    "  stoker trace demo --ids-file ids.txt --out trace.safetensors --layers --chunks 1,7,30\n"
    "  stoker trace demo --ids-file ids.txt --out trace.safetensors --decode 40 --drafts\n";

Result<void> run_trace(const std::string& model, const std::string& ids_file,
                       const std::string& chunks, TraceOptions options, const std::string& out) {
  const Result<std::string> text = read_file(ids_file);
  if (!text) return text.error();
  const Result<std::vector<int32_t>> ids = parse_ids(*text, ids_file);
  if (!ids) return ids.error();
  Result<std::vector<int32_t>> lengths = parse_ids(chunks, "--chunks");
  if (!lengths) return lengths.error();
  options.chunks = *std::move(lengths);
  LoadingProgress progress;
  options.progress = [&progress](const Progress& now) { progress.update(now); };
  return write_trace(model, *ids, options, out);
}

}  // namespace

int trace_command(const Arguments& arguments) {
  std::string model;
  std::optional<std::string> ids_file, out;
  std::string chunks;
  TraceOptions options;
  OptionParser parser("trace",
                      "Runs a model over given token ids and writes the logits of every position "
                      "to a safetensors file.",
                      kTraceExamples);
  parser.positional("MODEL", &model, kModelHelp);
  parser.option("--ids-file", "FILE", &ids_file, "Token ids separated by white space; required");
  parser.option("--out", "FILE", &out, "The safetensors file to write; required");
  parser.option("--chunks", "1,7,30", &chunks,
                "Positions of each pass in turn, the last one repeating [all at once]");
  parser.flag("--layers", &options.layers, "Also what every layer computes");
  parser.option("--decode", "N", &options.decode_tokens,
                "Then N tokens, each the likeliest one [0]");
  parser.flag("--drafts", &options.drafts,
              "A round of the draft head before each of them, of which nothing is taken");
  add_threads_option(parser, &options.num_threads);
  if (const auto code = parser.parse(arguments)) return *code;
  if (!ids_file || !out) return parser.refuse("expected both --ids-file and --out");

  const Result<void> done = run_trace(model, *ids_file, chunks, options, *out);
  return done ? 0 : report(done.error());
}

}  // namespace stoker
