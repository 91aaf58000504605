#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace stoker {
namespace {

constexpr const char* kDim = "\x1b[2m";
constexpr const char* kNotDim = "\x1b[22m";

bool is_control(unsigned char c) {
  return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    const bool is_c1 = c == 0xC2 && next >= 0x80 && next < 0xA0;  // U+0080 .. U+009F
    if (is_c1) ++i;
    out += is_c1 || is_control(c) ? "\uFFFD" : std::string(1, text[i]);
  }
  return out;
}

}  // namespace

Output::Output() : is_terminal_(isatty(STDOUT_FILENO) == 1) {}

void Output::put(std::string_view text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!is_written && error_ == 0) error_ = errno;
}

void Output::write(std::string_view text) {
  if (text.empty()) return;
  put(is_terminal_ ? without_controls(text) : std::string(text));
  at_line_start_ = text.back() == '\n';
}

void Output::write_dimmed(std::string_view text) {
  if (text.empty()) return;
  if (is_terminal_) put(kDim);
  write(text);
  if (is_terminal_) put(kNotDim);
}

void Output::end_line() {
  if (!at_line_start_) write("\n");
}

Result<void> Output::result() const {
  if (error_ == 0) return {};
  return Error{ErrorCode::kIo, std::string("standard output: ") + std::strerror(error_), ""};
}

Result<ResultFile> ResultFile::open(const std::optional<std::string>& path) {
  if (!path) return ResultFile("", nullptr);
  std::FILE* file = std::fopen(path->c_str(), "wb");
  if (file == nullptr) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error{code, *path + ": expected a file to write: " + std::strerror(errno), ""};
  }
  return ResultFile(*path, file);
}

Result<void> ResultFile::finish(std::string_view text) {
  if (file_ == nullptr) return {};
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (std::fclose(file_.release()) == 0 && is_written) return {};
  return Error{ErrorCode::kIo, path_ + ": " + std::strerror(errno), ""};
}

}  // namespace stoker
