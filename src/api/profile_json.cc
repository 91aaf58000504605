#include "api/profile_json.h"

#include <array>
#include <cstdio>

namespace stoker {
namespace {

constexpr double kMicroseconds = 1e6;

std::string number_of(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}

void append_event(const char* name, double begin, double seconds, const std::string& arguments,
                  std::string& out) {
  if (out.back() != '[') out += ",\n";
  out += std::string("{\"name\":\"") + name + R"(","ph":"X","pid":1,"tid":1,"ts":)" +
         number_of(begin * kMicroseconds) + ",\"dur\":" + number_of(seconds * kMicroseconds) +
         (arguments.empty() ? "" : ",\"args\":{" + arguments + "}") + "}";
}

std::string arguments_of(const engine::StepRecord& step) {
  const auto member = [](const char* name, int32_t value) {
    return std::string("\"") + name + "\":" + std::to_string(value);
  };
  return member("sequences", step.num_sequences) + "," + member("waiting", step.num_waiting) + "," +
         member("prefill_rows", step.prefill_rows) + "," + member("decode_rows", step.decode_rows) +
         "," + member("drafts", step.num_drafts) + "," + member("tokens", step.num_tokens);
}

}  // namespace

std::string profile_json(const engine::StepProfile::Steps& steps) {
  std::string out = "{\"traceEvents\":[";
  for (const engine::StepRecord& step : steps.records) {
    double at = engine::seconds_between(steps.records.front().begin, step.begin);
    append_event("step", at, step.seconds, arguments_of(step), out);
    if (step.draft_seconds > 0) append_event("draft", at, step.draft_seconds, "", out);
    at += step.draft_seconds;
    append_event("forward", at, step.forward_seconds, "", out);
    append_event("choose", at + step.forward_seconds, step.choose_seconds, "", out);
  }
  return out + "],\n\"displayTimeUnit\":\"ms\",\"otherData\":{\"steps_left_out\":" +
         std::to_string(steps.num_left_out) + "}}\n";
}

}  // namespace stoker
