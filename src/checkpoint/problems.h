// What is wrong with the files of a checkpoint, collected so that all of it can be told at once.
#pragma once

#include <string>
#include <vector>

#include "stoker/error.h"

namespace stoker {

/// Counts every mistake and keeps the first 1000. A plain value.
class Problems {
 public:
  void add(Error error);
  /// The same, of kCorruptData.
  void add_corrupt(std::string message);

  bool empty() const { return kept_.empty(); }

  /// One error for all: the code of the first, the first 20 messages, and how many more there are.
  /// There must be one.
  Error joined() const;

  /// The messages kept, and "and N more" where there are others.
  std::vector<std::string> messages() const;

 private:
  std::vector<Error> kept_;
  size_t count_ = 0;
};

}  // namespace stoker
