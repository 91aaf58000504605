#include "stoker/error.h"

#include "base/check.h"

namespace stoker {
namespace {

constexpr ErrorCodeInfo kCodes[] = {
    {ErrorCode::kInvalidArgument, "kInvalidArgument", 400, "ValueError", 2},
    {ErrorCode::kUnsupported, "kUnsupported", 400, "NotImplementedError", 2},
    {ErrorCode::kNotFound, "kNotFound", 404, "KeyError", 2},
    {ErrorCode::kOverloaded, "kOverloaded", 429, "OverloadedError", 4},
    {ErrorCode::kCancelled, "kCancelled", 0, "CancelledError", 4},
    {ErrorCode::kDeadlineExceeded, "kDeadlineExceeded", 504, "TimeoutError", 4},
    {ErrorCode::kResourceExhausted, "kResourceExhausted", 503, "MemoryError", 3},
    {ErrorCode::kPeerLost, "kPeerLost", 503, "ConnectionError", 3},
    {ErrorCode::kIo, "kIo", 500, "OSError", 3},
    {ErrorCode::kCorruptData, "kCorruptData", 500, "CorruptDataError", 3},
    {ErrorCode::kInternal, "kInternal", 500, "RuntimeError", 3},
};

}  // namespace

const ErrorCodeInfo& error_code_info(ErrorCode code) {
  const auto row = static_cast<size_t>(code);
  CHECK(row < std::size(kCodes) && kCodes[row].code == code,
        "the rows are in the order of the codes");
  return kCodes[row];
}

Error Error::with(std::string_view context) const {
  return {code, std::string(context) + ": " + message, field};
}

}  // namespace stoker
