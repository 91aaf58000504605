// make_slice OUT: writes a checkpoint at the released widths with few layers and experts, and
// random weights, for measurements on a small machine. No tokenizer: token ids alone.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "tools/slice_files.h"

namespace stoker::slice {
namespace {

constexpr const char* kUsage =
    "Usage: make_slice OUT [OPTIONS]\n\n"
    "Writes a checkpoint with random weights into the directory OUT: the released widths and "
    "every\n"
    "kind of layer, with few layers and experts.\n\n"
    "  --shape slice|tiny  the released widths, or small ones for tests [slice]\n"
    "  --layers N          at least 4 [4]\n"
    "  --experts N         routed experts of a layer [16]\n"
    "  --vocab N           token ids [4096; tiny: 512]\n"
    "  --seed N            of the weights; the same files for the same seed [1]\n"
    "  --help              print this\n";

int refuse(const std::string& problem) {
  std::fprintf(stderr, "make_slice: %s\nmake_slice --help shows what it takes\n", problem.c_str());
  return error_code_info(ErrorCode::kInvalidArgument).exit_code;
}

int report(const Error& error) {
  std::fprintf(stderr, "make_slice: %s\n", error.message.c_str());
  return error_code_info(error.code).exit_code;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// Takes one option; returns what is wrong with it, or nothing.
std::string take(const std::string& name, const std::string& value, Options* options) {
  if (name == "--shape") {
    if (value != "slice" && value != "tiny")
      return "--shape: expected slice or tiny, found '" + value + "'";
    options->widths = value == "tiny" ? Widths::kTiny : Widths::kSlice;
    return {};
  }
  if (name == "--seed") {
    const auto seed = number_of<uint64_t>(value);
    if (!seed) return "--seed: expected a whole number of at least 0, found '" + value + "'";
    options->seed = *seed;
    return {};
  }
  std::optional<int32_t>* place = name == "--layers"    ? &options->layers
                                  : name == "--experts" ? &options->experts
                                  : name == "--vocab"   ? &options->vocab
                                                        : nullptr;
  if (place == nullptr) return "unknown option " + name;
  *place = number_of<int32_t>(value);
  return *place ? std::string() : name + ": expected a whole number, found '" + value + "'";
}

// Where it takes more than a second, a line for each quarter.
class Progress {
 public:
  void operator()(double fraction) {
    if (std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
    if (fraction < next_) return;
    std::fprintf(stderr, "make_slice: %.0f %%\n", fraction * 100);
    next_ = fraction + 0.25;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_ = 0;
};

int make(const std::string& dir, const Options& options) {
  WorkerPool pool(usable_cores());
  Progress progress;
  const Result<int64_t> bytes =
      write_checkpoint(dir, options, pool, [&progress](double fraction) { progress(fraction); });
  if (!bytes) return report(bytes.error());
  std::printf("%s: %.2f GB of weights\n", dir.c_str(), static_cast<double>(*bytes) * 1e-9);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  std::optional<std::string> dir;
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (!argument.starts_with("--")) {
      if (dir) return refuse("expected one directory, found '" + argument + "' too");
      dir = argument;
      continue;
    }
    if (i + 1 == arguments.size()) return refuse("expected a value after " + argument);
    const std::string problem = take(argument, arguments[++i], &options);
    if (!problem.empty()) return refuse(problem);
  }
  if (!dir) return refuse("expected a directory to write to");
  return make(*dir, options);
}

}  // namespace
}  // namespace stoker::slice

int main(int argc, char** argv) {
  return stoker::slice::run({argv + (argc > 0 ? 1 : 0), argv + argc});
}
