#include "stoker/inspect.h"

#include <algorithm>

#include "api/loaded_model.h"
#include "base/machine.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "checkpoint/checkpoint.h"
#include "model/workspace.h"
#include "tokenizer/tokenizer.h"

namespace stoker {
namespace {

std::string list(const std::vector<int32_t>& numbers) {
  std::string text;
  for (const int32_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text.empty() ? "none" : text;
}

void add_facts(const ModelConfig& c, Inspection& out) {
  const auto add = [&out](const char* name, std::string value) {
    out.facts.emplace_back(name, std::move(value));
  };
  const auto add_number = [&add](const char* name, int64_t value) {
    add(name, std::to_string(value));
  };
  add_number("layers", c.num_hidden_layers);
  add_number("hidden size", c.hidden_size);
  add("attention", std::to_string(c.num_attention_heads) + " heads of " +
                       std::to_string(c.head_dim) + ", window " + std::to_string(c.sliding_window));
  add("experts", std::to_string(c.n_routed_experts) + " routed (" +
                     std::to_string(c.num_experts_per_tok) + " a token) and " +
                     std::to_string(c.n_shared_experts) + " shared, width " +
                     std::to_string(c.moe_intermediate_size));
  add("KV sources", "layers " + list(c.kv_source_layer_ids));
  add("index sources", "layers " + list(c.index_source_layer_ids) + "; " +
                           std::to_string(c.index_topk) + " rows a token");
  add("Engram", "layers " + list(c.engram_layer_ids));
  add("draft stages", std::to_string(c.num_nextn_predict_layers) + " (checked, not used yet)");
  add_number("vocabulary", c.vocab_size);
  add_number("context", c.max_position_embeddings);
}

void add_parts(const CheckpointSurvey& survey, Inspection& out) {
  for (const TensorSummary& tensor : survey.tensors) {
    const auto is_it = [&tensor](const CheckpointPart& part) { return part.name == tensor.part; };
    auto part = std::find_if(out.parts.begin(), out.parts.end(), is_it);
    if (part == out.parts.end()) part = out.parts.insert(part, CheckpointPart{tensor.part});
    ++part->num_tensors;
    part->num_parameters += tensor.num_parameters;
    part->bytes += tensor.bytes;
    out.weight_bytes += tensor.bytes;
  }
}

void check_tokenizer(const std::string& path, const ModelConfig& c, Inspection& out) {
  const auto json = read_file(path + "/tokenizer.json", kMaxTokenizerBytes);
  if (!json) {
    if (json.error().code != ErrorCode::kNotFound) out.problems.push_back(json.error().message);
    out.facts.emplace_back("tokenizer", "none: token ids only");
    if (!c.engram_layer_ids.empty() && c.engram_compressed_vocab_size != c.vocab_size) {
      out.problems.push_back("tokenizer.json is missing, and Engram needs it");
    }
    return;
  }
  const auto tokenizer = Tokenizer::parse(*json);
  if (!tokenizer) {
    out.problems.push_back("tokenizer.json: " + tokenizer.error().message);
    return;
  }
  out.facts.emplace_back("tokenizer", std::to_string(tokenizer->size()) + " tokens");
  if (c.engram_layer_ids.empty()) return;
  const int32_t classes = engram_map(*tokenizer).num_classes;
  if (classes != c.engram_compressed_vocab_size) {
    out.problems.push_back("the Engram token map of tokenizer.json: expected " +
                           std::to_string(c.engram_compressed_vocab_size) + " classes, found " +
                           std::to_string(classes));
  }
}

void add_capacity(const ModelConfig& c, Inspection& out) {
  const KvShape shape = kv_shape(c);
  out.bytes_per_token = (shape.block_bytes() + kBlockTokens - 1) / kBlockTokens;
  out.bytes_per_sequence = shape.slot_bytes();
  const int64_t left = out.machine_memory_bytes - out.weight_bytes - out.bytes_per_sequence;
  if (left > 0 && out.bytes_per_token > 0) out.max_tokens_in_memory = left / out.bytes_per_token;
}

}  // namespace

Result<Inspection> inspect(const std::string& model) {
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(const CheckpointSurvey survey, Checkpoint::survey(path));
  Inspection out;
  out.name = model_name(model, path);
  out.path = path;
  out.problems = survey.problems;
  out.machine_memory_bytes = usable_memory_bytes();
  add_parts(survey, out);
  if (survey.config) {
    add_facts(*survey.config, out);
    check_tokenizer(path, *survey.config, out);
    add_capacity(*survey.config, out);
  }
  return out;
}

Result<StatePlan> plan_state(const std::string& model, const EngineOptions& options) {
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  TRY_ASSIGN(ModelConfig config, read_config(path));
  // Where weights are there, they may lack the draft head.
  if (const auto survey = Checkpoint::survey(path); survey && survey->config)
    config = *survey->config;
  TRY_ASSIGN(const Replay replay, replay_of(config, options.bounded_replay));
  const KvShape shape = kv_shape(config, replay);
  TRY_ASSIGN(const KvPlan plan, plan_kv(shape, budget_of(options)));
  StatePlan out;
  out.budget_bytes = options.kv_budget_bytes;
  out.total_bytes = plan.total_bytes;
  out.num_sequences = plan.num_slots;
  out.sequence_bytes = shape.slot_bytes();
  out.num_blocks = plan.num_blocks;
  out.block_bytes = shape.block_bytes();
  out.block_tokens = kBlockTokens;
  out.num_tokens = plan.tokens();
  out.num_image_units = plan.num_image_units;
  out.image_unit_bytes = shape.image_unit_bytes();
  out.units_of_an_image = shape.has_late_rings() ? 2 : 1;
  out.index_bytes = plan.index_bytes;
  out.max_step_rows = max_step_rows(options);
  out.workspace_bytes = Workspace::bytes_for(config, num_threads, out.max_step_rows);
  const int64_t context = config.max_position_embeddings;
  for (int64_t tokens = 1024; tokens < context; tokens *= 8)
    out.fits.emplace_back(tokens, plan.sequences_of(tokens));
  out.fits.emplace_back(context, plan.sequences_of(context));
  return out;
}

}  // namespace stoker
