// A folder for the files of a batch, for its tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "server/batch_line.h"
#include "server/batch_output.h"

namespace stoker {

/// Files in a folder of their own, which goes with the test.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string name = testing::TempDir() + "stoker_batch_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }

  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// How many files there are.
  int64_t num_files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  Result<BatchOutput> open_output(const std::string& name, bool overwrite = false,
                                  int input = -1) const {
    return BatchOutput::open({path(name), overwrite, input});
  }

 private:
  std::filesystem::path folder_;
};

/// A line of an output.
inline std::string done(const std::string& custom_id, int status = 200) {
  return response_line("0", {custom_id, "r", status, R"({"text":"x"})"});
}

}  // namespace stoker
