#include "common.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "loading.h"

namespace stoker {
namespace {

using std::chrono_literals::operator""ms;

/// How long an interrupt may go unseen while no event comes.
constexpr auto kInterruptPeriod = 50ms;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<std::string> read_all(std::FILE* file, const std::string& name) {
  std::string content;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, file)) content.append(buffer, n);
  if (std::ferror(file) != 0) return Error{ErrorCode::kIo, name + ": " + std::strerror(errno), ""};
  return content;
}

constexpr bool is_separator(char c) {
  return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

}  // namespace

int report(const Error& error) {
  const bool is_named = error.field.empty() || error.message.find(error.field) != std::string::npos;
  const std::string text = is_named ? error.message : error.field + ": " + error.message;
  std::fprintf(stderr, "stoker: %s\n", text.c_str());
  return error_code_info(error.code).exit_code;
}

Result<std::string> read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error{code, path + ": expected a file to read: " + std::strerror(errno), ""};
  }
  return read_all(file.get(), path);
}

Result<std::string> read_standard_input() {
  return read_all(stdin, "standard input");
}

Result<std::vector<int32_t>> parse_ids(std::string_view text, const std::string& what) {
  std::vector<int32_t> ids;
  size_t at = 0;
  while (true) {
    while (at < text.size() && is_separator(text[at])) ++at;
    if (at == text.size()) return ids;
    size_t end = at;
    while (end < text.size() && !is_separator(text[end])) ++end;
    int32_t id = 0;
    const auto [stop, code] = std::from_chars(text.data() + at, text.data() + end, id);
    if (code != std::errc() || stop != text.data() + end) {
      const std::string found(text.substr(at, std::min<size_t>(end - at, 40)));
      return Error{ErrorCode::kInvalidArgument,
                   what + ": expected whole numbers separated by white space or commas, found '" +
                       found + "' after " + std::to_string(ids.size()) + " of them",
                   ""};
    }
    ids.push_back(id);
    at = end;
  }
}

void add_threads_option(OptionParser& parser, int* num_threads) {
  parser.option("--threads", "N", num_threads, "Threads that compute; 0: one per core [0]");
}

void add_generation_options(OptionParser& parser, GenerationOptions* options) {
  parser.option("--max-tokens", "N", &options->max_tokens,
                "Tokens to choose at most [what the context holds]");
  parser.option("--temperature", "T", &options->sampling.temperature,
                "0 takes the likeliest token each time [the checkpoint's]");
  parser.option("--top-p", "P", &options->sampling.top_p,
                "Only the likeliest tokens that together reach P; 1 is off");
  parser.option("--top-k", "K", &options->sampling.top_k, "Only the K likeliest tokens; 0 is off");
  parser.option("--seed", "N", &options->sampling.seed,
                "The same seed gives the same answer [drawn]");
  add_threads_option(parser, &options->num_threads);
}

Result<std::unique_ptr<Engine>> open_engine(const std::string& model, EngineOptions options) {
  LoadingProgress progress;
  options.progress = [&progress](const std::string& phase, double fraction) {
    progress.update(phase, fraction);
  };
  if (!options.log) {
    options.log = [](LogLevel level, std::string_view line) {
      if (level < LogLevel::kWarning) return;
      std::fprintf(stderr, "stoker: %.*s\n", static_cast<int>(line.size()), line.data());
    };
  }
  return Engine::open(model, std::move(options));
}

Finish run_to_end(Stream& stream, InterruptGuard* guard,
                  const std::function<void(const Event&)>& on_event) {
  while (true) {
    if (guard != nullptr && guard->take()) stream.cancel();
    const std::optional<Event> event = stream.wait(kInterruptPeriod);
    if (!event) continue;
    on_event(*event);
    if (event->finish) return *event->finish;
  }
}

}  // namespace stoker
