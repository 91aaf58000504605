// Bodies of multipart/form-data, read as they come: nothing of a part's content is kept but what
// may be the beginning of a boundary. Knows no files and no fields. Source: RFC 7578, RFC 2046.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/result.h"

namespace stoker {

/// The boundary that the parameters of a Content-Type name, such as ` boundary="x"; charset=utf-8`:
/// 1 to 70 of the characters that RFC 2046 has for one. Nothing: there is none.
std::optional<std::string> multipart_boundary(std::string_view parameters);

/// What the head of a part says. A plain value.
struct MultipartPart {
  std::string name;                     ///< UTF-8, 1 to 64 bytes
  std::optional<std::string> filename;  ///< UTF-8, at most 255 bytes
};

/// Reads one body. Not thread-safe.
class MultipartParser {
 public:
  /// What is told of a body; an error ends it and is feed()'s.
  struct Handlers {
    std::function<Result<void>(const MultipartPart& part)> begin;
    std::function<Result<void>(std::string_view bytes)> data;  ///< more of the part begun last
  };

  MultipartParser(std::string_view boundary, Handlers handlers);

  /// The next bytes of the body; of what stands behind the last boundary nothing is told. Not to be
  /// called after an error. Errors: kInvalidArgument for what is no such body, with a head of more
  /// than 8 KiB, or more than 16 parts; those of the handlers.
  Result<void> feed(std::string_view bytes);

  /// The body is over. Errors: kInvalidArgument where it was cut.
  Result<void> finish() const;

 private:
  enum class State { kBeforeFirst, kData, kBehindBoundary, kHead, kEnd };

  Result<bool> step();
  Result<bool> read_data();
  Result<bool> read_boundary_end();
  Result<bool> read_head();
  Result<void> tell_data(size_t num_bytes);
  void drop(size_t num_bytes) { start_ += num_bytes; }
  std::string_view rest() const { return std::string_view(buffer_).substr(start_); }

  const std::string delimiter_;  // with the line break in front, which is no content
  Handlers handlers_;
  State state_ = State::kBeforeFirst;
  std::string buffer_;
  size_t start_ = 0;  // of what is not read in the buffer
  int num_parts_ = 0;
};

}  // namespace stoker
