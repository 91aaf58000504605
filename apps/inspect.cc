// stoker inspect: what is in a checkpoint, and whether this machine can hold it.
#include "stoker/inspect.h"

#include <cstdio>
#include <string>

#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "output.h"
#include "texts.h"

namespace stoker {
namespace {

constexpr const char* kInspectExamples =
    "  stoker inspect demo\n"
    "  stoker inspect /models/DeepSeek-V4.1-Flash --json\n"
    "  stoker inspect /models/DeepSeek-V4.1-Flash --plan --kv-budget 64GiB --max-num-seqs 256\n";

std::string formatted(const char* format, double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value, unit);
  return buffer;
}

/// 14400000 -> "14.4 M"
std::string count_text(int64_t count) {
  constexpr const char* kUnits[] = {"K", "M", "G", "T"};
  if (count < 1000) return std::to_string(count);
  double value = static_cast<double>(count) / 1000;
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return formatted("%.1f %s", value, kUnits[unit]);
}

std::string row(const std::string& name, const std::string& value) {
  constexpr size_t kNameWidth = 28;
  return "  " + name + std::string(name.size() < kNameWidth ? kNameWidth - name.size() : 1, ' ') +
         value + "\n";
}

std::string parts_text(const Inspection& inspection) {
  std::string text = "\nParts\n";
  for (const CheckpointPart& part : inspection.parts) {
    text += row(part.name, size_text(part.bytes) + ", " + count_text(part.num_parameters) +
                               " parameters in " + std::to_string(part.num_tensors) +
                               (part.num_tensors == 1 ? " tensor" : " tensors"));
  }
  return text + row("all", size_text(inspection.weight_bytes));
}

std::string machine_text(const Inspection& inspection) {
  const std::string tokens =
      inspection.max_tokens_in_memory > 0
          ? count_text(inspection.max_tokens_in_memory) + " over all sequences"
          : "does not fit";
  return "\nThis machine\n" + row("memory", size_text(inspection.machine_memory_bytes)) +
         row("state of a sequence", size_text(inspection.bytes_per_sequence) + " and " +
                                        size_text(inspection.bytes_per_token) + " for each token") +
         row("tokens beside the weights", tokens);
}

std::string problems_text(const Inspection& inspection) {
  if (inspection.problems.empty()) return "\nNo problems found.\n";
  std::string text = "\nProblems\n";
  for (const std::string& problem : inspection.problems) text += "  " + problem + "\n";
  return text;
}

std::string whole_text(const Inspection& inspection) {
  std::string text = inspection.name + " (" + inspection.path + ")\n";
  for (const auto& [name, value] : inspection.facts) text += row(name, value);
  return text + parts_text(inspection) + machine_text(inspection) + problems_text(inspection);
}

std::string parts_json(const Inspection& inspection) {
  std::vector<std::string> parts;
  for (const CheckpointPart& part : inspection.parts) {
    parts.push_back(JsonObject()
                        .add("name", json_string(part.name))
                        .add("num_tensors", std::to_string(part.num_tensors))
                        .add("num_parameters", std::to_string(part.num_parameters))
                        .add("bytes", std::to_string(part.bytes))
                        .text());
  }
  return json_array(parts);
}

std::string whole_json(const Inspection& inspection) {
  JsonObject facts;
  for (const auto& [name, value] : inspection.facts) facts.add(name, json_string(value));
  std::vector<std::string> problems;
  for (const std::string& problem : inspection.problems) problems.push_back(json_string(problem));
  return JsonObject()
             .add("name", json_string(inspection.name))
             .add("path", json_string(inspection.path))
             .add("facts", facts.text())
             .add("parts", parts_json(inspection))
             .add("problems", json_array(problems))
             .add("weight_bytes", std::to_string(inspection.weight_bytes))
             .add("machine_memory_bytes", std::to_string(inspection.machine_memory_bytes))
             .add("bytes_per_token", std::to_string(inspection.bytes_per_token))
             .add("bytes_per_sequence", std::to_string(inspection.bytes_per_sequence))
             .add("max_tokens_in_memory", std::to_string(inspection.max_tokens_in_memory))
             .text() +
         "\n";
}

std::string plan_text(const StatePlan& plan) {
  std::string text =
      "Plan for " + size_text(plan.budget_bytes) + "\n" +
      row("sequences at the same time",
          std::to_string(plan.num_sequences) + ", " + size_text(plan.sequence_bytes) + " each") +
      row("blocks", std::to_string(plan.num_blocks) + " of " + std::to_string(plan.block_tokens) +
                        " tokens, " + size_text(plan.block_bytes) + " each") +
      row("tokens", std::to_string(plan.num_tokens) + " over all sequences") +
      row("cached beginnings", std::to_string(plan.num_image_units / plan.units_of_an_image) +
                                   " to " + std::to_string(plan.num_image_units) + ", " +
                                   size_text(plan.num_image_units * plan.image_unit_bytes) +
                                   ", and " + size_text(plan.index_bytes) + " to find them") +
      row("in use", size_text(plan.total_bytes)) +
      row("beside it", size_text(plan.workspace_bytes) + " to compute steps of " +
                           std::to_string(plan.max_step_rows) + " tokens");
  for (const auto& [tokens, sequences] : plan.fits)
    text += row("sequences of " + std::to_string(tokens), std::to_string(sequences));
  return text;
}

std::string plan_json(const StatePlan& plan) {
  std::vector<std::string> fits;
  for (const auto& [tokens, sequences] : plan.fits) {
    fits.push_back(JsonObject()
                       .add("tokens", std::to_string(tokens))
                       .add("sequences", std::to_string(sequences))
                       .text());
  }
  return JsonObject()
             .add("budget_bytes", std::to_string(plan.budget_bytes))
             .add("total_bytes", std::to_string(plan.total_bytes))
             .add("num_sequences", std::to_string(plan.num_sequences))
             .add("sequence_bytes", std::to_string(plan.sequence_bytes))
             .add("num_blocks", std::to_string(plan.num_blocks))
             .add("block_bytes", std::to_string(plan.block_bytes))
             .add("block_tokens", std::to_string(plan.block_tokens))
             .add("num_tokens", std::to_string(plan.num_tokens))
             .add("num_image_units", std::to_string(plan.num_image_units))
             .add("image_unit_bytes", std::to_string(plan.image_unit_bytes))
             .add("units_of_an_image", std::to_string(plan.units_of_an_image))
             .add("index_bytes", std::to_string(plan.index_bytes))
             .add("workspace_bytes", std::to_string(plan.workspace_bytes))
             .add("max_step_rows", std::to_string(plan.max_step_rows))
             .add("fits", json_array(fits))
             .text() +
         "\n";
}

int print_plan(const std::string& model, const EngineOptions& options, bool json) {
  const Result<StatePlan> plan = plan_state(model, options);
  if (!plan) return report(plan.error());
  return print_result(json ? plan_json(*plan) : plan_text(*plan));
}

}  // namespace

int inspect_command(const Arguments& arguments) {
  std::string model;
  bool json = false;
  bool plan = false;
  EngineOptions options;
  OptionParser parser("inspect",
                      "Shows what is in a checkpoint, what this machine can hold of it, and what "
                      "is wrong with it (then "
                      "the exit code is 3).",
                      kInspectExamples);
  parser.positional("MODEL", &model, kModelHelp);
  parser.flag("--json", &json, "Print one object");
  parser.flag("--plan", &plan, "Show how --kv-budget would be spent, as serve does");
  add_memory_options(parser, &options);
  add_threads_option(parser, &options.num_threads);
  if (const auto code = parser.parse(arguments)) return *code;
  if (plan && options.kv_budget_bytes == 0)
    return parser.refuse("--plan: expected --kv-budget SIZE too");
  if (!plan && options.kv_budget_bytes != 0)
    return parser.refuse("--kv-budget: expected --plan too");
  if (plan) return print_plan(model, options, json);

  const Result<Inspection> inspection = inspect(model);
  if (!inspection) return report(inspection.error());
  Output out;
  out.write(json ? whole_json(*inspection) : whole_text(*inspection));
  const Result<void> written = out.result();
  if (!written) return report(written.error());
  return inspection->problems.empty() ? 0 : error_code_info(ErrorCode::kCorruptData).exit_code;
}

}  // namespace stoker
