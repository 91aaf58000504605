// Values inside a forward pass, under the names of tools/reference/make_golden.py, for comparison
// with other implementations.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace stoker {

/// Collects rows over the forward passes of one sequence. Float rows have a fixed width, except
/// index scores, which grow.
class Trace {
 public:
  struct Floats {
    std::vector<std::vector<float>> rows;
  };
  struct Integers {
    std::vector<std::vector<int64_t>> rows;
  };

  void note(const std::string& name, std::span<const float> row) {
    floats[name].rows.emplace_back(row.begin(), row.end());
  }
  template <class Integer>
  void note_integers(const std::string& name, std::span<const Integer> row) {
    integers[name].rows.emplace_back(row.begin(), row.end());
  }

  std::map<std::string, Floats> floats;      ///< "layers.3.attn_in", ...
  std::map<std::string, Integers> integers;  ///< "layers.3.routes", ...
};

}  // namespace stoker
