// Where results go, whose failures are told: standard output, piece by piece, flushed at once and
// safe on a terminal; and files.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "stoker/result.h"

namespace stoker {

/// Writes text of a model. On a terminal control characters other than tab and line feed become
/// U+FFFD, so that an answer cannot steer it. Used by one thread.
class Output {
 public:
  Output();

  bool is_terminal() const { return is_terminal_; }

  /// Whole UTF-8 characters.
  void write(std::string_view text);

  /// As write, dimmed on a terminal.
  void write_dimmed(std::string_view text);

  /// A line feed, unless nothing was written since the last one.
  void end_line();

  /// Whether all was written. Errors: kIo.
  Result<void> result() const;

 private:
  void put(std::string_view text);

  bool is_terminal_;
  bool at_line_start_ = true;
  int error_ = 0;  ///< errno of the first failure
};

/// A file for results, opened before they are made: what cannot be written is told at once.
class ResultFile {
 public:
  /// Without a path nothing is written. Errors: kNotFound, kIo.
  static Result<ResultFile> open(const std::optional<std::string>& path);

  /// Writes all of it and closes the file, if there is one. Once. Errors: kIo.
  Result<void> finish(std::string_view text);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  ResultFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace stoker
