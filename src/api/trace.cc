#include "stoker/trace.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "api/loaded_model.h"
#include "base/check.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "base/worker_pool.h"
#include "checkpoint/safetensors.h"
#include "tensor/arith.h"

namespace stoker {
namespace {

// Tensors with the bytes that they borrow.
class TraceFile {
 public:
  template <class T>
  void add(std::string name, DType dtype, Shape shape, const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    storage_.emplace_back(bytes, bytes + values.size() * sizeof(T));
    tensors_.push_back({std::move(name), dtype, std::move(shape), storage_.back()});
  }

  Result<void> write(const std::string& path) const {
    const std::string image = serialize_safetensors(tensors_);
    return write_file_atomically(path,
                                 {reinterpret_cast<const uint8_t*>(image.data()), image.size()});
  }

 private:
  std::deque<std::vector<uint8_t>>
      storage_;  // a deque, so that what was borrowed stays where it is
  std::vector<TensorToWrite> tensors_;
};

// Rows as one array, each filled up to `width`.
template <class T>
std::vector<T> padded(const std::vector<std::vector<T>>& rows, size_t width, T filler) {
  std::vector<T> flat;
  flat.reserve(rows.size() * width);
  for (const std::vector<T>& row : rows) {
    flat.insert(flat.end(), row.begin(), row.end());
    flat.insert(flat.end(), width - row.size(), filler);
  }
  return flat;
}

void add_floats(const ModelConfig& c, const Trace& trace, TraceFile& file) {
  for (const auto& [name, tensor] : trace.floats) {
    const auto num_rows = static_cast<int64_t>(tensor.rows.size());
    const size_t width = tensor.rows.back().size();  // the last row is the longest
    Shape shape = {num_rows, static_cast<int64_t>(width)};
    if (name.ends_with("_streams")) shape = {num_rows, c.hc_mult, c.hidden_size};
    file.add("prompt." + name, DType::kF32, shape,
             padded(tensor.rows, width, -std::numeric_limits<float>::infinity()));
  }
}

// The rows of every Engram layer are one tensor: [positions, layers, columns].
void add_engram_rows(const ModelConfig& c, const Trace& trace, TraceFile& file) {
  if (c.engram_layer_ids.empty()) return;
  std::vector<int64_t> flat;
  int64_t num_rows = 0;
  for (; trace.integers.at("layers." + std::to_string(c.engram_layer_ids[0]) + ".engram_rows")
             .rows.size() > static_cast<size_t>(num_rows);
       ++num_rows) {
    for (const int32_t layer : c.engram_layer_ids) {
      const auto& rows = trace.integers.at("layers." + std::to_string(layer) + ".engram_rows").rows;
      const auto& row = rows[static_cast<size_t>(num_rows)];
      flat.insert(flat.end(), row.begin(), row.end());
    }
  }
  const auto num_layers = static_cast<int64_t>(c.engram_layer_ids.size());
  file.add("prompt.engram_rows", DType::kI64, {num_rows, num_layers, c.engram_columns()}, flat);
}

void add_integers(const ModelConfig& c, const Trace& trace, TraceFile& file) {
  for (const auto& [name, tensor] : trace.integers) {
    if (name.ends_with("engram_rows")) continue;
    const int64_t width = name.ends_with("selected") ? c.index_topk : c.num_experts_per_tok;
    file.add("prompt." + name, DType::kI64, {static_cast<int64_t>(tensor.rows.size()), width},
             padded(tensor.rows, static_cast<size_t>(width), int64_t{-1}));
  }
}

Result<void> check_options(const LoadedModel& model, const std::vector<int32_t>& ids,
                           const TraceOptions& options) {
  if (ids.empty())
    return Error{ErrorCode::kInvalidArgument, "ids: expected at least one token id, found none",
                 "ids"};
  if (options.decode_tokens < 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        "decode: expected at least 0 tokens, found " + std::to_string(options.decode_tokens),
        "decode"};
  }
  const int64_t context = model.info().max_context_tokens;
  if (static_cast<int64_t>(ids.size()) + options.decode_tokens > context) {
    const std::string decoded = options.decode_tokens > 0
                                    ? " and " + std::to_string(options.decode_tokens) + " to decode"
                                    : "";
    return Error{ErrorCode::kInvalidArgument,
                 "ids: expected at most " + std::to_string(context) +
                     " token ids (the context), found " + std::to_string(ids.size()) + decoded,
                 "ids"};
  }
  if (options.drafts && options.decode_tokens == 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        "drafts: expected tokens to decode, since each has a draft round before it; found none",
        "drafts"};
  }
  if (options.drafts && model.checkpoint().config().num_nextn_predict_layers == 0) {
    return Error{ErrorCode::kUnsupported,
                 "drafts: expected a checkpoint with a draft head (mtp.*), found none in it",
                 "drafts"};
  }
  for (const int32_t chunk : options.chunks) {
    if (chunk < 1) {
      return Error{ErrorCode::kInvalidArgument,
                   "chunks: expected lengths of at least 1, found " + std::to_string(chunk),
                   "chunks"};
    }
  }
  return model.check_ids(ids, "ids");
}

// One sequence from the first id on.
class Tracer {
 public:
  static Result<Tracer> create(const LoadedModel& loaded, const TraceOptions& options,
                               int64_t max_positions, int64_t max_rows) {
    Tracer tracer(loaded.model(), options);
    TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
    TRY_ASSIGN(const kernels::KernelPlan kernel_plan, kernels::default_plan());
    tracer.pool_ = std::make_unique<WorkerPool>(num_threads);
    tracer.work_ =
        std::make_unique<Workspace>(tracer.config(), *tracer.pool_, kernel_plan, max_rows);
    const KvShape shape = tracer.model_.state_shape();
    const int64_t num_blocks = blocks_for(max_positions);
    TRY_ASSIGN(const KvPlan plan,
               plan_kv(shape, {.bytes = shape.slot_bytes() + num_blocks * shape.block_bytes()}));
    TRY_ASSIGN(tracer.store_, KvStore::create(shape, plan));
    tracer.state_ = SequenceState::create(*tracer.store_, num_blocks);
    CHECK(tracer.state_ && tracer.state_->reserve(max_positions), "the plan is for this sequence");
    return tracer;
  }

  // One pass; logits [ids, vocab]. draft_keys_from as in Segment, if there will be drafts.
  void run(std::span<const int32_t> ids, int64_t draft_keys_from, float* logits, Trace* trace) {
    const Segment segment{
        &*state_, ids, {}, options_.drafts ? draft_keys_from : Segment::kNoDraftKeys};
    std::vector<int64_t> wanted(ids.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    model_.forward(*work_, {&segment, 1}, wanted, logits, trace);
  }

  // Logits of all ids, [ids, vocab].
  std::vector<float> run_prompt(std::span<const int32_t> ids, Trace* trace) {
    const auto vocab = static_cast<size_t>(config().vocab_size);
    std::vector<float> logits(ids.size() * vocab);
    const int64_t keys_from = static_cast<int64_t>(ids.size()) - config().sliding_window;
    for (size_t done = 0, step = 0; done < ids.size(); ++step) {
      size_t count = ids.size() - done;
      if (!options_.chunks.empty()) {
        const size_t at = std::min(step, options_.chunks.size() - 1);
        count = std::min(count, static_cast<size_t>(options_.chunks[at]));
      }
      run(ids.subspan(done, count), keys_from, logits.data() + done * vocab, trace);
      done += count;
      tell(static_cast<int64_t>(ids.size()));
    }
    return logits;
  }

  // The greedy continuation of what was run, whose last logits are given: one token at a time, each
  // after a draft round if drafts are asked for.
  void decode(std::vector<float> logits, TraceFile& file) {
    const auto num_tokens = static_cast<size_t>(options_.decode_tokens);
    const int64_t end = state_->length() + options_.decode_tokens;
    const auto block = static_cast<size_t>(options_.drafts ? config().dspark_block_size : 0);
    std::vector<int64_t> chosen, at;
    std::vector<float> margin;
    std::vector<int32_t> drafts(num_tokens * block);
    std::vector<float> confidence(num_tokens * block);
    while (chosen.size() < num_tokens) {
      const auto best = std::ranges::max_element(logits);
      const auto token = static_cast<int32_t>(best - logits.begin());
      margin.push_back(*best - second_largest(logits));
      const size_t first = chosen.size() * block;
      chosen.push_back(token);
      at.push_back(state_->length());
      if (options_.drafts) {
        const DraftJob job{&*state_, token, std::span(drafts).subspan(first, block),
                           std::span(confidence).subspan(first, block)};
        model_.draft(*work_, {&job, 1});
      }
      run({&token, 1}, 0, logits.data(), nullptr);
      tell(end);
    }
    const auto count = static_cast<int64_t>(num_tokens);
    file.add("decode.ids", DType::kI64, {count}, chosen);
    file.add("decode.margin", DType::kF32, {count}, margin);
    if (!options_.drafts) return;
    const FlushDenormals flush;
    std::ranges::transform(confidence, confidence.begin(), arith::sigmoid);
    const Shape shape = {count, config().dspark_block_size};
    file.add("decode.pending", DType::kI64, {count}, chosen);
    file.add("decode.at", DType::kI64, {count}, at);
    file.add("decode.drafts", DType::kI64, shape,
             std::vector<int64_t>(drafts.begin(), drafts.end()));
    file.add("decode.confidence", DType::kF32, shape, confidence);
  }

 private:
  Tracer(const Model& model, const TraceOptions& options) : model_(model), options_(options) {}

  const ModelConfig& config() const { return model_.config(); }

  static float second_largest(std::vector<float> logits) {
    std::ranges::nth_element(logits, logits.end() - 2);
    return *(logits.end() - 2);
  }

  void tell(int64_t of) const {
    if (!options_.progress) return;
    options_.progress(
        {"running the model", static_cast<double>(state_->length()) / static_cast<double>(of)});
  }

  const Model& model_;
  const TraceOptions& options_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<Workspace> work_;
  std::unique_ptr<KvStore> store_;
  std::optional<SequenceState> state_;
};

}  // namespace

Result<void> write_trace(const std::string& model, const std::vector<int32_t>& ids,
                         const TraceOptions& options, const std::string& out) {
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  // Nobody could take a trace back: damage is looked for before.
  TRY_ASSIGN(const auto loaded, LoadedModel::load(model, {.num_threads = num_threads,
                                                          .bounded_replay = BoundedReplay::kOff,
                                                          .weights = {.verify = Verify::kFull},
                                                          .progress = options.progress}));
  if (auto checked = check_options(*loaded, ids, options); !checked) return checked;

  const ModelConfig& c = loaded->checkpoint().config();
  const auto num_ids = static_cast<int64_t>(ids.size());
  TRY_ASSIGN(Tracer tracer,
             Tracer::create(*loaded, options, num_ids + options.decode_tokens, num_ids));
  Trace trace;
  std::vector<float> logits = tracer.run_prompt(ids, options.layers ? &trace : nullptr);

  TraceFile file;
  const std::vector<int64_t> prompt(ids.begin(), ids.end());
  file.add("prompt.ids", DType::kI64, {num_ids}, prompt);
  file.add("prompt.logits", DType::kF32, {num_ids, c.vocab_size}, logits);
  if (options.layers) {
    add_floats(c, trace, file);
    add_integers(c, trace, file);
    add_engram_rows(c, trace, file);
  }
  if (options.decode_tokens > 0) {
    file.add("decode.prompt", DType::kI64, {num_ids}, prompt);
    logits.erase(logits.begin(), logits.end() - c.vocab_size);
    tracer.decode(std::move(logits), file);
  }
  return file.write(out);
}

}  // namespace stoker
