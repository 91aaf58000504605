#include "model/packed_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "tensor/panels.h"

namespace stoker {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLine = 64;
constexpr int64_t kReadAhead = 8192;  // behind the last panel: kernels ask for what comes next

// The header: magic, version, number of matrices, bytes of all; then an entry for each matrix.
constexpr std::string_view kMagic = "stokpack";
constexpr int64_t kHeadBytes = 32;
constexpr int64_t kEntryBytes = 40;  // format, rows, cols, offsets of data and scale

int64_t rounded_up(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

void visit_block(BlockWeights& block, const std::function<void(Weight&, bool)>& visit) {
  visit(block.hc_attn.fn, true);
  visit(block.hc_ffn.fn, true);
  visit(block.engram.wkv, false);
  visit(block.attn.wkv, false);
  visit(block.attn.compressor_wkv, false);
  visit(block.attn.compressor_wgate, false);
  visit(block.attn.indexer_wk, false);
  visit(block.attn.wq_a, false);
  visit(block.attn.indexer_weights_proj, false);
  visit(block.attn.wq_b, false);
  visit(block.attn.indexer_wq_b, false);
  for (Weight& group : block.attn.wo_a_groups) visit(group, false);
  visit(block.attn.wo_b, false);
  visit(block.ffn.gate_weight, false);
  visit(block.ffn.shared_experts.w1, false);
  visit(block.ffn.shared_experts.w3, false);
  visit(block.ffn.shared_experts.w2, false);
  for (ExpertWeights& expert : block.ffn.experts) {
    visit(expert.w1, false);
    visit(expert.w3, false);
    visit(expert.w2, false);
  }
}

// Whether it is there, and in a format that has a packed one.
bool has_packed_form(const Weight& weight, bool parts) {
  if (!weight || (parts && weight.cols % kNumParts != 0)) return false;
  return is_packed(packed_format(weight.format, parts));
}

// Each matrix in the order of for_each_matrix; null for one without a packed form.
std::vector<const Weight*> with_packed_form(ModelWeights& weights) {
  std::vector<const Weight*> matrices;
  for_each_matrix(weights, [&](const Weight& weight, bool parts) {
    matrices.push_back(has_packed_form(weight, parts) ? &weight : nullptr);
  });
  return matrices;
}

// How a header spells a packed format; 0 is a matrix that is not packed.
int64_t format_number(WeightFormat format) {
  return static_cast<int64_t>(format) - static_cast<int64_t>(WeightFormat::kBf16Panel) + 1;
}

Error differs(const std::string& what, const std::string& expected) {
  return {ErrorCode::kCorruptData, "packed weights: " + what + ": expected " + expected, ""};
}

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Which of `num_matrices` matrices a header says are packed.
Result<std::vector<uint8_t>> packed_matrices(Bytes packed, size_t num_matrices) {
  const auto expect = [](const char* what, int64_t expected, int64_t found) -> Result<void> {
    if (expected == found) return {};
    return differs(what, std::to_string(expected) + ", found " + std::to_string(found));
  };
  const size_t header_bytes = kHeadBytes + num_matrices * kEntryBytes;
  if (packed.size() < header_bytes) {
    return differs("header",
                   std::to_string(header_bytes) + " bytes, found " + std::to_string(packed.size()));
  }
  if (!std::equal(kMagic.begin(), kMagic.end(), packed.begin()))
    return differs("first bytes", std::string(kMagic));
  auto good = expect("version", kPackedVersion, load_le<int64_t>(packed.data() + 8));
  if (good) {
    good = expect("matrices", static_cast<int64_t>(num_matrices),
                  load_le<int64_t>(packed.data() + 16));
  }
  if (!good) return std::move(good).error();
  std::vector<uint8_t> out(num_matrices);
  for (size_t i = 0; i < num_matrices; ++i)
    out[i] = load_le<int64_t>(packed.data() + kHeadBytes + i * kEntryBytes) != 0 ? 1 : 0;
  return out;
}

// The first error of several threads.
class FirstError {
 public:
  bool is_set() const { return is_set_.load(std::memory_order_relaxed); }
  void note(Result<void> result) {
    if (result) return;
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(result).error();
    is_set_.store(true, std::memory_order_relaxed);
  }
  /// After all threads are done.
  Result<void> result() const { return error_ ? Result<void>(*error_) : Result<void>(); }

 private:
  std::atomic<bool> is_set_{false};
  std::mutex mutex_;  // guards error_
  std::optional<Error> error_;
};

// Memory of a thread for one piece, which is handed on whole.
class PieceWriter {
 public:
  PieceWriter(const PackedSize& room, const PackSink& sink)
      : data_(static_cast<size_t>(room.data)),
        scale_(static_cast<size_t>(room.scale)),
        sink_(&sink) {}

  Result<void> write(const Weight& from, const Weight& to, int64_t piece, int64_t data_offset,
                     int64_t scale_offset) {
    const PackedSize size = pack_piece_size(to);
    pack_piece(from, to, piece, data_.data(), scale_.data());
    const Bytes data(data_.data(), static_cast<size_t>(size.data));
    const Bytes scale(scale_.data(), static_cast<size_t>(size.scale));
    auto taken = (*sink_)(data_offset + piece * size.data, data);
    if (!taken || scale.empty()) return taken;
    return (*sink_)(scale_offset + piece * size.scale, scale);
  }

 private:
  std::vector<uint8_t> data_;
  std::vector<uint8_t> scale_;
  const PackSink* sink_;
};

}  // namespace

void for_each_matrix(ModelWeights& weights, const std::function<void(Weight&, bool parts)>& visit) {
  for (BlockWeights& block : weights.layers) visit_block(block, visit);
  visit(weights.head, false);
  for (BlockWeights& block : weights.mtp.stages) visit_block(block, visit);
  visit(weights.mtp.main_proj, false);
  visit(weights.mtp.markov_head_head, false);
}

// Large matrices begin on a huge page, small ones follow each other.
PackedLayout::PackedLayout(const ModelWeights& from, const std::vector<uint8_t>& packs)
    : from_(from), num_matrices_(static_cast<int64_t>(packs.size())) {
  bytes_ = rounded_up(kHeadBytes + num_matrices_ * kEntryBytes, kHugePage);
  int64_t number = -1;
  for_each_matrix(from_, [&](const Weight& weight, bool parts) {
    if (packs[static_cast<size_t>(++number)] == 0) return;
    Matrix matrix{number, weight, weight};
    matrix.to.format = packed_format(weight.format, parts);
    const PackedSize size = packed_size(matrix.to.format, weight.rows, weight.cols);
    matrix.data = rounded_up(bytes_, size.data >= kHugePage ? kHugePage : kLine);
    matrix.scale = rounded_up(matrix.data + size.data, kLine);
    bytes_ = matrix.scale + size.scale;
    matrices_.push_back(matrix);
  });
  bytes_ = rounded_up(bytes_ + kReadAhead, kHugePage);
}

PackedLayout PackedLayout::of(const ModelWeights& from, WorkerPool& pool) {
  ModelWeights weights = from;
  const std::vector<const Weight*> matrices = with_packed_form(weights);
  std::vector<uint8_t> packs(matrices.size());
  pool.run(static_cast<int64_t>(matrices.size()), [&](int64_t number, int /*worker*/) {
    const auto i = static_cast<size_t>(number);
    packs[i] = matrices[i] != nullptr && can_pack(*matrices[i]) ? 1 : 0;
  });
  return {from, packs};
}

Result<PackedLayout> PackedLayout::read(Bytes packed, const ModelWeights& from) {
  ModelWeights weights = from;
  const std::vector<const Weight*> matrices = with_packed_form(weights);
  TRY_ASSIGN(const std::vector<uint8_t> packs, packed_matrices(packed, matrices.size()));
  for (size_t i = 0; i < packs.size(); ++i) {
    if (packs[i] != 0 && matrices[i] == nullptr)
      return differs("matrix " + std::to_string(i), "not packed");
  }
  PackedLayout layout(from, packs);
  const std::string header = layout.header();
  if (layout.bytes() != static_cast<int64_t>(packed.size())) {
    return differs(
        "size", std::to_string(layout.bytes()) + " bytes, found " + std::to_string(packed.size()));
  }
  const auto found = std::ranges::mismatch(header, packed.first(header.size()),
                                           [](char a, uint8_t b) { return uint8_t(a) == b; });
  if (found.in1 == header.end()) return layout;
  return differs("byte " + std::to_string(found.in1 - header.begin()), "that of this model");
}

int64_t PackedLayout::header_bytes(const ModelWeights& from) {
  ModelWeights weights = from;
  int64_t bytes = kHeadBytes;
  for_each_matrix(weights, [&](Weight& /*weight*/, bool /*parts*/) { bytes += kEntryBytes; });
  return bytes;
}

std::string PackedLayout::header() const {
  std::string head(kMagic);
  append_le(head, kPackedVersion);
  append_le(head, num_matrices_);
  append_le(head, bytes_);
  std::string entries(static_cast<size_t>(num_matrices_ * kEntryBytes), '\0');
  for (const Matrix& matrix : matrices_) {
    std::string entry;
    for (const int64_t value : {format_number(matrix.to.format), matrix.to.rows, matrix.to.cols,
                                matrix.data, matrix.scale})
      append_le(entry, value);
    entries.replace(static_cast<size_t>(matrix.number * kEntryBytes), entry.size(), entry);
  }
  return head + entries;
}

Result<void> PackedLayout::pack(WorkerPool& pool, const PackSink& sink,
                                const PackProgress& progress) const {
  std::vector<int64_t> first_piece;
  int64_t num_pieces = 0;
  int64_t total = 0;
  PackedSize room;
  for (const Matrix& matrix : matrices_) {
    const PackedSize each = pack_piece_size(matrix.to);
    first_piece.push_back(num_pieces);
    num_pieces += num_pack_pieces(matrix.to);
    total += num_pack_pieces(matrix.to) * each.data;
    room = {std::max(room.data, each.data), std::max(room.scale, each.scale)};
  }
  std::vector<PieceWriter> writers(static_cast<size_t>(pool.num_threads()),
                                   PieceWriter(room, sink));

  const std::string head = header();
  if (auto taken = sink(0, bytes_of(head)); !taken) return taken;
  FirstError error;
  std::atomic<int64_t> done{0};
  pool.run(num_pieces, [&](int64_t piece, int worker) {
    if (error.is_set()) return;
    const auto after = std::upper_bound(first_piece.begin(), first_piece.end(), piece);
    const auto at = static_cast<size_t>(after - first_piece.begin()) - 1;
    const Matrix& matrix = matrices_[at];
    error.note(writers[static_cast<size_t>(worker)].write(
        matrix.from, matrix.to, piece - first_piece[at], matrix.data, matrix.scale));
    const int64_t bytes = pack_piece_size(matrix.to).data;
    const int64_t now = done.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (worker == 0 && progress) progress(now, total);
  });
  return error.result();
}

ModelWeights PackedLayout::weights_in(const uint8_t* packed) const {
  ModelWeights out = from_;
  size_t next = 0;
  int64_t number = 0;
  for_each_matrix(out, [&](Weight& weight, bool /*parts*/) {
    if (next == matrices_.size() || number++ != matrices_[next].number) return;
    const Matrix& matrix = matrices_[next++];
    weight = matrix.to;
    weight.data = packed + matrix.data;
    weight.scale = pack_piece_size(weight).scale > 0 ? packed + matrix.scale : nullptr;
  });
  return out;
}

PackedWeights PackedWeights::make(const ModelWeights& from, WorkerPool& pool,
                                  const PackProgress& progress) {
  const PackedLayout layout = PackedLayout::of(from, pool);
  PackedWeights out(layout.bytes(), pool);
  uint8_t* const memory = out.memory_.take<uint8_t>(layout.bytes()).data();
  const auto packed = layout.pack(
      pool,
      [memory](int64_t offset, Bytes part) -> Result<void> {
        std::memcpy(memory + offset, part.data(), part.size());
        return {};
      },
      progress);
  CHECK(packed.has_value(), "memory takes all");
  out.weights_ = std::make_unique<const ModelWeights>(layout.weights_in(memory));
  return out;
}

}  // namespace stoker
