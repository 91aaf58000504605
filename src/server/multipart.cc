#include "server/multipart.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/utf8.h"
#include "server/http_text.h"

namespace stoker {
namespace {

constexpr size_t kMaxBoundaryBytes = 70;
constexpr size_t kMaxHeadBytes = size_t{8} << 10;
constexpr int kMaxParts = 16;
constexpr size_t kMaxPartNameBytes = 64;
constexpr size_t kMaxFilenameBytes = 255;
constexpr std::string_view kLineBreak = "\r\n";

Error wrong_body(const std::string& expected) {
  return {ErrorCode::kInvalidArgument, "the body: expected " + expected, ""};
}

bool is_boundary_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
}

bool is_boundary(std::string_view text) {
  return !text.empty() && text.size() <= kMaxBoundaryBytes && text.back() != ' ' &&
         std::all_of(text.begin(), text.end(), is_boundary_character);
}

// Takes a quoted string from the beginning of `text`, behind its first quote; nothing: it has no
// end.
std::optional<std::string> take_quoted(std::string_view& text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return value;
    }
    const bool is_escape =
        text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\');
    if (is_escape) ++i;
    value += text[i];
  }
  return std::nullopt;
}

// The value of `wanted` among `name=value; name="value"`. Nothing: it is not there, or what stands
// before it is no such list.
std::optional<std::string> parameter_of(std::string_view text, std::string_view wanted) {
  while (!text.empty()) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = trim(text.substr(0, equals));
    text.remove_prefix(equals + 1);
    std::optional<std::string> value;
    if (!text.empty() && text.front() == '"') {
      text.remove_prefix(1);
      value = take_quoted(text);
      if (!value) return std::nullopt;
    } else {
      value = std::string(trim(text.substr(0, text.find(';'))));
    }
    if (equals_ignoring_case(name, wanted)) return value;
    text.remove_prefix(std::min(text.find(';'), text.size() - 1) + 1);
  }
  return std::nullopt;
}

Result<MultipartPart> parse_disposition(std::string_view value) {
  const size_t semicolon = std::min(value.find(';'), value.size());
  if (!equals_ignoring_case(trim(value.substr(0, semicolon)), "form-data"))
    return wrong_body("parts with Content-Disposition: form-data");
  const std::string_view parameters = value.substr(std::min(semicolon + 1, value.size()));
  const auto name = parameter_of(parameters, "name");
  if (!name || name->empty() || name->size() > kMaxPartNameBytes || !is_valid_utf8(*name))
    return wrong_body("parts whose Content-Disposition has a name of 1 to " +
                      std::to_string(kMaxPartNameBytes) + " bytes of UTF-8");
  MultipartPart part{*name, parameter_of(parameters, "filename")};
  if (part.filename &&
      (part.filename->size() > kMaxFilenameBytes || !is_valid_utf8(*part.filename)))
    return wrong_body("a filename of at most " + std::to_string(kMaxFilenameBytes) +
                      " bytes of UTF-8");
  return part;
}

// `head` is the lines of a part's head, each with its line break.
Result<MultipartPart> parse_head(std::string_view head) {
  std::optional<std::string_view> disposition;
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find(kLineBreak));
    head.remove_prefix(line.size() + kLineBreak.size());
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return wrong_body("lines of NAME: VALUE above a part");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (equals_ignoring_case(name, "content-disposition")) disposition = value;
    const bool is_encoded = equals_ignoring_case(name, "content-transfer-encoding") &&
                            !equals_ignoring_case(value, "binary") &&
                            !equals_ignoring_case(value, "8bit") &&
                            !equals_ignoring_case(value, "7bit");
    if (is_encoded) return wrong_body("parts without a Content-Transfer-Encoding");
  }
  if (!disposition) return wrong_body("parts with a Content-Disposition");
  return parse_disposition(*disposition);
}

}  // namespace

std::optional<std::string> multipart_boundary(std::string_view parameters) {
  auto boundary = parameter_of(parameters, "boundary");
  if (boundary && !is_boundary(*boundary)) return std::nullopt;
  return boundary;
}

// The first boundary has no line break in front: one is put there.
MultipartParser::MultipartParser(std::string_view boundary, Handlers handlers)
    : delimiter_("\r\n--" + std::string(boundary)),
      handlers_(std::move(handlers)),
      buffer_(kLineBreak) {}

Result<void> MultipartParser::feed(std::string_view bytes) {
  if (state_ == State::kEnd) return {};
  buffer_.erase(0, start_);
  start_ = 0;
  buffer_ += bytes;
  while (state_ != State::kEnd) {
    const auto stepped = step();
    if (!stepped) return stepped.error();
    if (!*stepped) return {};
  }
  buffer_.clear();
  start_ = 0;
  return {};
}

Result<void> MultipartParser::finish() const {
  if (state_ == State::kEnd) return {};
  return wrong_body("the boundary that ends it, found its end");
}

// False: more bytes are needed.
Result<bool> MultipartParser::step() {
  switch (state_) {
    case State::kBeforeFirst:
    case State::kData:
      return read_data();
    case State::kBehindBoundary:
      return read_boundary_end();
    case State::kHead:
      return read_head();
    case State::kEnd:
      break;
  }
  return false;
}

Result<void> MultipartParser::tell_data(size_t num_bytes) {
  if (num_bytes == 0) return {};
  if (state_ == State::kBeforeFirst)
    return wrong_body("the boundary of its Content-Type first, found something else");
  auto told = handlers_.data(rest().substr(0, num_bytes));
  drop(num_bytes);
  return told;
}

Result<bool> MultipartParser::read_data() {
  const size_t at = rest().find(delimiter_);
  const bool is_found = at != std::string_view::npos;
  const size_t held = std::min(rest().size(), delimiter_.size() - 1);
  if (auto told = tell_data(is_found ? at : rest().size() - held); !told) return told.error();
  if (!is_found) return false;
  drop(delimiter_.size());
  state_ = State::kBehindBoundary;
  return true;
}

// Behind a boundary stands "--", which is the end, or a line break; blanks may come before that.
Result<bool> MultipartParser::read_boundary_end() {
  if (rest().size() < 2) return false;
  if (rest().substr(0, 2) == "--") {
    state_ = State::kEnd;
    return true;
  }
  const size_t blanks = std::min(rest().find_first_not_of(" \t"), rest().size());
  if (blanks > kMaxBoundaryBytes) return wrong_body("a line break behind a boundary");
  if (rest().size() - blanks < kLineBreak.size()) return false;
  if (rest().substr(blanks, kLineBreak.size()) != kLineBreak)
    return wrong_body("a line break or -- behind a boundary, found something else");
  drop(blanks + kLineBreak.size());
  state_ = State::kHead;
  return true;
}

Result<bool> MultipartParser::read_head() {
  constexpr std::string_view kHeadEnd = "\r\n\r\n";
  const size_t end = rest().find(kHeadEnd);
  const size_t least_bytes =
      std::min(end, rest().size() - std::min(rest().size(), kHeadEnd.size() - 1));
  if (least_bytes > kMaxHeadBytes)
    return wrong_body("at most " + std::to_string(kMaxHeadBytes) + " bytes above a part");
  if (end == std::string_view::npos) return false;
  if (++num_parts_ > kMaxParts)
    return wrong_body("at most " + std::to_string(kMaxParts) + " parts");
  const auto part = parse_head(rest().substr(0, end + kLineBreak.size()));
  if (!part) return part.error();
  drop(end + kHeadEnd.size());
  state_ = State::kData;
  if (auto begun = handlers_.begin(*part); !begun) return begun.error();
  return true;
}

}  // namespace stoker
