#include "server/identity.h"

#include <chrono>

#include "base/json.h"

namespace stoker {
namespace {

constexpr size_t kMaxToldFields = 1024;  // names that are remembered; later ones are not logged

}  // namespace

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

IdSource::IdSource() {
  std::random_device source;
  std::seed_seq seed{source(), source(), source(), source()};
  random_.seed(seed);
}

std::string IdSource::next() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (int half = 0; half < 2; ++half) {
    uint64_t bits = random_();
    for (int i = 0; i < 16; ++i, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

std::string IdSource::next_call(const char* kind) {
  constexpr size_t kDigits = 24;
  return kind + next().substr(0, kDigits);
}

void UnknownFields::tell(const std::vector<std::string>& names, const LogSink& log) {
  for (const std::string& name : names) {
    if (told_.size() >= kMaxToldFields || !told_.insert(name).second || !log) continue;
    log(LogLevel::kWarning, "request field ignored name=" + json_quote(name));
  }
}

}  // namespace stoker
