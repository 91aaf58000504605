// stoker tokenize: standard input to ids, or ids to text.
#include "stoker/tokenize.h"

#include <cstdio>
#include <string>

#include "commands.h"
#include "common.h"
#include "output.h"

namespace stoker {
namespace {

constexpr const char* kTokenizeExamples =
    "  printf 'Hello, world!' | stoker tokenize demo\n"
    "  echo 42 71 419 81 | stoker tokenize demo --decode\n";

/// Without a line feed at the end, so that text comes back as it was; on a terminal one is added.
Result<void> print_text(const std::string& model, const std::string& input) {
  const Result<std::vector<int32_t>> ids = parse_ids(input, "standard input");
  if (!ids) return ids.error();
  const Result<std::string> text = detokenize(model, *ids);
  if (!text) return text.error();
  Output out;
  out.write(*text);
  if (out.is_terminal()) out.end_line();
  return out.result();
}

Result<void> print_ids(const std::string& model, const std::string& input) {
  const Result<std::vector<int32_t>> ids = tokenize(model, input);
  if (!ids) return ids.error();
  std::string line;
  for (const int32_t id : *ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  Output out;
  out.write(line + "\n");
  return out.result();
}

}  // namespace

int tokenize_command(const Arguments& arguments) {
  std::string model;
  bool decode = false;
  OptionParser parser(
      "tokenize",
      "Reads text from standard input and prints its token ids on one line. Spellings of control "
      "tokens become control tokens; none are added.",
      kTokenizeExamples);
  parser.positional("MODEL", &model, kModelHelp);
  parser.flag("--decode", &decode, "The reverse: ids separated by white space or commas to text");
  if (const auto code = parser.parse(arguments)) return *code;

  const Result<std::string> input = read_standard_input();
  if (!input) return report(input.error());
  const Result<void> printed = decode ? print_text(model, *input) : print_ids(model, *input);
  return printed ? 0 : report(printed.error());
}

}  // namespace stoker
