#include "stoker/trace.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "api/loaded_model.h"
#include "base/check.h"
#include "base/mapped_file.h"
#include "base/try.h"
#include "base/worker_pool.h"
#include "checkpoint/safetensors.h"

namespace stoker {
namespace {

// Tensors with the bytes that they borrow.
class TraceFile {
 public:
  template <class T>
  void add(std::string name, DType dtype, Shape shape, const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    storage_.emplace_back(bytes, bytes + values.size() * sizeof(T));
    tensors_.push_back({"prompt." + std::move(name), dtype, std::move(shape), storage_.back()});
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
    file.add(name, DType::kF32, shape,
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
  file.add("engram_rows", DType::kI64, {num_rows, num_layers, c.engram_columns()}, flat);
}

void add_integers(const ModelConfig& c, const Trace& trace, TraceFile& file) {
  for (const auto& [name, tensor] : trace.integers) {
    if (name.ends_with("engram_rows")) continue;
    const int64_t width = name.ends_with("selected") ? c.index_topk : c.num_experts_per_tok;
    file.add(name, DType::kI64, {static_cast<int64_t>(tensor.rows.size()), width},
             padded(tensor.rows, static_cast<size_t>(width), int64_t{-1}));
  }
}

Result<void> check_options(const LoadedModel& model, const std::vector<int32_t>& ids,
                           const TraceOptions& options) {
  if (ids.empty())
    return Error{ErrorCode::kInvalidArgument, "ids: expected at least one token id, found none",
                 "ids"};
  const int64_t context = model.info().max_context_tokens;
  if (static_cast<int64_t>(ids.size()) > context) {
    return Error{ErrorCode::kInvalidArgument,
                 "ids: expected at most " + std::to_string(context) +
                     " token ids (the context), found " + std::to_string(ids.size()),
                 "ids"};
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
  WorkerPool pool(num_threads);
  TRY_ASSIGN(const kernels::KernelPlan kernel_plan, kernels::default_plan());
  Workspace work(c, pool, kernel_plan, static_cast<int64_t>(ids.size()));
  const KvShape shape = kv_shape(c);
  const int64_t num_blocks = blocks_for(static_cast<int64_t>(ids.size()));
  TRY_ASSIGN(const KvPlan plan,
             plan_kv(shape, {.bytes = shape.slot_bytes() + num_blocks * shape.block_bytes()}));
  TRY_ASSIGN(const auto store, KvStore::create(shape, plan));
  auto state = SequenceState::create(*store, num_blocks);
  CHECK(state && state->reserve(static_cast<int64_t>(ids.size())), "the plan is for this sequence");
  Trace trace;
  std::vector<float> logits(ids.size() * static_cast<size_t>(c.vocab_size));
  for (size_t done = 0, step = 0; done < ids.size(); ++step) {
    size_t count = ids.size() - done;
    if (!options.chunks.empty()) {
      count = std::min(
          count, static_cast<size_t>(options.chunks[std::min(step, options.chunks.size() - 1)]));
    }
    const Segment segment{&*state, std::span(ids).subspan(done, count)};
    std::vector<int64_t> wanted(count);
    for (size_t i = 0; i < count; ++i) wanted[i] = static_cast<int64_t>(i);
    loaded->model().forward(work, {&segment, 1}, wanted,
                            logits.data() + done * static_cast<size_t>(c.vocab_size),
                            options.layers ? &trace : nullptr);
    done += count;
    if (options.progress) {
      options.progress(
          {"running the model", static_cast<double>(done) / static_cast<double>(ids.size())});
    }
  }

  TraceFile file;
  const auto num_ids = static_cast<int64_t>(ids.size());
  file.add("ids", DType::kI64, {num_ids}, std::vector<int64_t>(ids.begin(), ids.end()));
  file.add("logits", DType::kF32, {num_ids, c.vocab_size}, logits);
  if (options.layers) {
    add_floats(c, trace, file);
    add_integers(c, trace, file);
    add_engram_rows(c, trace, file);
  }
  return file.write(out);
}

}  // namespace stoker
