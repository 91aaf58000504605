#include "bench/onednn.h"

#ifdef STOKER_ONEDNN

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace stoker::bench {
namespace {

using dnnl::memory;

memory::desc described(int64_t rows, int64_t cols, memory::data_type type, memory::format_tag tag) {
  return {{rows, cols}, type, tag};
}

dnnl::matmul::primitive_desc product_of(const dnnl::engine& engine, int64_t rows, int64_t cols,
                                        int64_t outputs) {
  using Type = memory::data_type;
  using Tag = memory::format_tag;
  return {dnnl::matmul::desc(described(rows, cols, Type::bf16, Tag::ab),
                             described(cols, outputs, Type::bf16, Tag::any),
                             described(rows, outputs, Type::f32, Tag::ab)),
          engine};
}

// Half ones, which is what bytes 0x3f stand for.
void fill(memory& place) {
  auto* bytes = static_cast<uint8_t*>(place.get_data_handle());
  std::fill_n(bytes, place.get_desc().get_size(), uint8_t{0x3f});
}

}  // namespace

struct OneDnn::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul::primitive_desc product;
  dnnl::matmul multiply;
  memory x;
  memory y;
  std::vector<memory> weights;
};

std::string OneDnn::lacking() {
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    product_of(engine, 16, 64, 64);
    return "";
  } catch (const dnnl::error&) {
    return "oneDNN has no bf16 products for this processor";
  }
}

std::string OneDnn::version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

OneDnn::OneDnn(int64_t rows, int64_t cols, int64_t outputs, int64_t num_matrices)
    : state_(std::make_unique<State>()) {
  omp_set_num_threads(1);
  state_->product = product_of(state_->engine, rows, cols, outputs);
  state_->multiply = dnnl::matmul(state_->product);
  state_->x = memory(state_->product.src_desc(), state_->engine);
  state_->y = memory(state_->product.dst_desc(), state_->engine);
  fill(state_->x);
  for (int64_t i = 0; i < num_matrices; ++i) {
    state_->weights.emplace_back(state_->product.weights_desc(), state_->engine);
    fill(state_->weights.back());
  }
}

OneDnn::~OneDnn() = default;

void OneDnn::multiply(int64_t i) {
  state_->multiply.execute(state_->stream,
                           {{DNNL_ARG_SRC, state_->x},
                            {DNNL_ARG_WEIGHTS, state_->weights[static_cast<size_t>(i)]},
                            {DNNL_ARG_DST, state_->y}});
  state_->stream.wait();
}

}  // namespace stoker::bench

#else

#include "base/check.h"

namespace stoker::bench {

struct OneDnn::State {};

std::string OneDnn::lacking() {
  return "built without oneDNN: install libdnnl-dev and configure again";
}

std::string OneDnn::version() {
  return "";
}

OneDnn::OneDnn(int64_t /*rows*/, int64_t /*cols*/, int64_t /*outputs*/, int64_t /*num_matrices*/) {
  CHECK(false, lacking().c_str());
}

OneDnn::~OneDnn() = default;

void OneDnn::multiply(int64_t /*i*/) {}

}  // namespace stoker::bench

#endif
