#include "model/packed_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "tensor/panels.h"

namespace stoker {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLine = 64;
constexpr int64_t kReadAhead = 8192;  // behind the last panel: kernels ask for what comes next

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

}  // namespace

void for_each_matrix(ModelWeights& weights, const std::function<void(Weight&, bool parts)>& visit) {
  for (BlockWeights& block : weights.layers) visit_block(block, visit);
  visit(weights.head, false);
  for (BlockWeights& block : weights.mtp.stages) visit_block(block, visit);
  visit(weights.mtp.main_proj, false);
  visit(weights.mtp.markov_head_head, false);
}

// Large matrices begin on a huge page, small ones follow each other.
PackedLayout::PackedLayout(const ModelWeights& from) : from_(from) {
  for_each_matrix(from_, [this](Weight& weight, bool parts) {
    if (!weight) return;
    const bool fits_parts = parts && weight.cols % kNumParts == 0;
    if ((parts && !fits_parts) || !can_pack(weight)) return;
    Matrix matrix{weight, weight};
    matrix.to.format = packed_format(weight.format, parts);
    const PackedSize size = packed_size(matrix.to.format, weight.rows, weight.cols);
    matrix.data = rounded_up(bytes_, size.data >= kHugePage ? kHugePage : kLine);
    matrix.scale = rounded_up(matrix.data + size.data, kLine);
    bytes_ = matrix.scale + size.scale;
    matrices_.push_back(matrix);
  });
  bytes_ = rounded_up(bytes_ + kReadAhead, kHugePage);
}

void PackedLayout::pack(WorkerPool& pool, uint8_t* memory,
                        const std::function<void(int64_t, int64_t)>& progress) const {
  std::vector<int64_t> first_piece;
  int64_t num_pieces = 0;
  int64_t total = 0;
  for (const Matrix& matrix : matrices_) {
    first_piece.push_back(num_pieces);
    num_pieces += num_pack_pieces(matrix.to);
    total += packed_size(matrix.to.format, matrix.to.rows, matrix.to.cols).data;
  }
  std::atomic<int64_t> done{0};
  pool.run(num_pieces, [&](int64_t piece, int worker) {
    const auto after = std::upper_bound(first_piece.begin(), first_piece.end(), piece);
    const auto at = static_cast<size_t>(after - first_piece.begin()) - 1;
    const Matrix& matrix = matrices_[at];
    pack_piece(matrix.from, matrix.to, piece - first_piece[at], memory + matrix.data,
               memory + matrix.scale);
    const int64_t bytes = packed_size(matrix.to.format, 1, matrix.to.cols).data;
    const int64_t now = done.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (worker == 0 && progress) progress(now, total);
  });
  if (progress) progress(total, total);
}

ModelWeights PackedLayout::weights_in(const uint8_t* memory) const {
  ModelWeights out = from_;
  size_t next = 0;
  for_each_matrix(out, [&](Weight& weight, bool /*parts*/) {
    if (next == matrices_.size() || weight.data != matrices_[next].from.data) return;
    const Matrix& matrix = matrices_[next++];
    weight = matrix.to;
    weight.data = memory + matrix.data;
    const bool has_scale = packed_size(weight.format, 1, weight.cols).scale > 0;
    weight.scale = has_scale ? memory + matrix.scale : nullptr;
  });
  return out;
}

void PackedWeights::Free::operator()(uint8_t* memory) const {
  ::operator delete (memory, std::align_val_t{kHugePage});
}

PackedWeights PackedWeights::make(const ModelWeights& from, WorkerPool& pool,
                                  const std::function<void(int64_t, int64_t)>& progress) {
  const PackedLayout layout(from);
  PackedWeights out;
  out.bytes_ = layout.bytes();
  const auto size = static_cast<size_t>(layout.bytes());
  out.memory_.reset(static_cast<uint8_t*>(::operator new (size, std::align_val_t{kHugePage})));
  static_cast<void>(::madvise(out.memory_.get(), size, MADV_HUGEPAGE));  // only advice
  std::memset(out.memory_.get(), 0, size);
  layout.pack(pool, out.memory_.get(), progress);
  out.weights_ = std::make_unique<const ModelWeights>(layout.weights_in(out.memory_.get()));
  return out;
}

}  // namespace stoker
