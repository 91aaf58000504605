#include "run_batch_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "texts.h"

namespace stoker {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{250};
constexpr std::chrono::milliseconds kLinePeriod{10'000};

std::string decimal(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

int64_t num_done(const BatchCounts& counts) {
  return counts.num_skipped + counts.num_written;
}

}  // namespace

BatchProgress::BatchProgress(std::optional<int64_t> total)
    : is_terminal_(isatty(STDERR_FILENO) == 1), total_(total), start_(Clock::now()) {}

std::chrono::milliseconds BatchProgress::period() const {
  return is_terminal_ ? kTerminalPeriod : kLinePeriod;
}

double BatchProgress::elapsed_seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

// At the rate so far.
std::optional<double> BatchProgress::seconds_left(const BatchCounts& counts) const {
  if (!total_ || counts.num_written == 0) return std::nullopt;
  const auto num_left = static_cast<double>(std::max<int64_t>(*total_ - num_done(counts), 0));
  return elapsed_seconds() * num_left / static_cast<double>(counts.num_written);
}

std::string BatchProgress::values(const BatchCounts& counts) const {
  const double seconds = elapsed_seconds();
  std::string text = "done=" + std::to_string(num_done(counts));
  if (total_) text += " total=" + std::to_string(*total_);
  text += " failed=" + std::to_string(counts.num_failed) +
          " skipped=" + std::to_string(counts.num_skipped) +
          " prompt_tokens=" + std::to_string(counts.prompt_tokens) +
          " completion_tokens=" + std::to_string(counts.completion_tokens) +
          " requests_per_s=" + decimal(static_cast<double>(counts.num_written) / seconds) +
          " tokens_per_s=" + decimal(static_cast<double>(counts.completion_tokens) / seconds) +
          " elapsed_s=" + decimal(seconds);
  return text;
}

std::string BatchProgress::sentence(const BatchCounts& counts) const {
  const double seconds = elapsed_seconds();
  std::string text = std::to_string(num_done(counts));
  if (total_) text += "/" + std::to_string(*total_);
  text += " requests";
  if (counts.num_failed > 0) text += ", " + std::to_string(counts.num_failed) + " failed";
  text += ", " + decimal(static_cast<double>(counts.num_written) / seconds) + " requests/s, " +
          decimal(static_cast<double>(counts.completion_tokens) / seconds) + " tokens/s";
  const auto left = seconds_left(counts);
  return left ? text + ", " + clock_text(*left) + " left" : text;
}

void BatchProgress::update(const BatchCounts& counts) {
  if (is_terminal_) {
    std::fprintf(stderr, "\rstoker: %s\x1b[K", sentence(counts).c_str());
    return;
  }
  const auto left = seconds_left(counts);
  std::fprintf(stderr, "batch running=%" PRId64 " %s%s\n", counts.num_running,
               values(counts).c_str(), left ? (" left_s=" + decimal(*left)).c_str() : "");
}

void BatchProgress::finish(const BatchCounts& counts, bool is_whole) {
  std::fprintf(stderr, "%sbatch %s %s\n", is_terminal_ ? "\r\x1b[K" : "",
               is_whole ? "finished" : "ended", values(counts).c_str());
}

}  // namespace stoker
