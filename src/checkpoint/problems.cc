#include "checkpoint/problems.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace stoker {
namespace {

constexpr size_t kMaxKept = 1000;
constexpr size_t kMaxSpelledOut = 20;

std::string more_text(size_t count) {
  return "and " + std::to_string(count) + " more";
}

}  // namespace

void Problems::add(Error error) {
  if (kept_.size() < kMaxKept) kept_.push_back(std::move(error));
  ++count_;
}

void Problems::add_corrupt(std::string message) {
  add({ErrorCode::kCorruptData, std::move(message), ""});
}

Error Problems::joined() const {
  CHECK(!kept_.empty(), "there is something to report");
  if (count_ == 1) return kept_.front();
  Error error{kept_.front().code, std::to_string(count_) + " problems", ""};
  const size_t num_spelled_out = std::min(count_, kMaxSpelledOut);
  for (size_t i = 0; i < num_spelled_out; ++i) error.message += "\n  " + kept_[i].message;
  if (count_ > num_spelled_out) error.message += "\n  " + more_text(count_ - num_spelled_out);
  return error;
}

std::vector<std::string> Problems::messages() const {
  std::vector<std::string> messages;
  messages.reserve(kept_.size() + 1);
  for (const Error& error : kept_) messages.push_back(error.message);
  if (count_ > kept_.size()) messages.push_back(more_text(count_ - kept_.size()));
  return messages;
}

}  // namespace stoker
