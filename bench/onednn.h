// Products as oneDNN does them, to compare with. The only user of that library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace stoker::bench {

/// Made bf16 matrices and rows, on one thread: x [rows, cols] times w [outputs, cols], transposed,
/// to float32. The matrices are in the order that oneDNN asks for.
class OneDnn {
 public:
  /// Why there is none; empty: there is.
  static std::string lacking();
  /// "2.6.3".
  static std::string version();

  /// Where lacking() is empty.
  OneDnn(int64_t rows, int64_t cols, int64_t outputs, int64_t num_matrices);
  ~OneDnn();

  /// With matrix `i` in [0, num_matrices).
  void multiply(int64_t i);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::bench
