// Options of one command: what it takes, its --help, and clear refusals. The command-line library
// stays behind options.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stoker {

/// The arguments of a command as the shell gave them, without "stoker" and the command's name.
using Arguments = std::vector<std::string>;

/// Declares options with the places that take their values, then reads the arguments once. The
/// places must outlive it.
/// `--name value` and `--name=value` are the same; after `--` everything is positional. An option
/// given twice is an error unless its place is a list.
class OptionParser {
 public:
  /// `summary` says what the command does; `examples` are whole lines for the end of --help.
  OptionParser(const std::string& command, const std::string& summary, const std::string& examples);
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;
  ~OptionParser();

  /// Heads the options that follow in --help; "" keeps them out of it.
  void group(const std::string& name);

  void flag(const std::string& name, bool* place, const std::string& help);
  /// Sets the place to false.
  void off_flag(const std::string& name, bool* place, const std::string& help);

  /// One of some words; `take` gets its index.
  void choice(const std::string& name, const std::vector<std::string>& words,
              const std::function<void(size_t)>& take, const std::string& help);

  /// A required argument without a name in front.
  void positional(const std::string& name, std::string* place, const std::string& help);

  /// One that may be missing.
  void positional(const std::string& name, std::optional<std::string>* place,
                  const std::string& help);

  /// `value_name` stands for the value in --help.
  void option(const std::string& name, const std::string& value_name, std::string* place,
              const std::string& help);
  void option(const std::string& name, const std::string& value_name,
              std::optional<std::string>* place, const std::string& help);
  void option(const std::string& name, const std::string& value_name,
              std::vector<std::string>* place, const std::string& help);

  /// `take` gets the value and returns what is wrong with it, or nothing.
  void checked_option(const std::string& name, const std::string& value_name,
                      const std::function<std::string(const std::string&)>& take,
                      const std::string& help);

  /// The same for a flag, which has no value.
  void checked_flag(const std::string& name, const std::function<std::string()>& take,
                    const std::string& help);

  /// A number that is no number of its type, or followed by anything, is refused.
  void option(const std::string& name, const std::string& value_name, int* place,
              const std::string& help);
  void option(const std::string& name, const std::string& value_name, std::optional<int32_t>* place,
              const std::string& help);
  void option(const std::string& name, const std::string& value_name,
              std::optional<uint64_t>* place, const std::string& help);
  void option(const std::string& name, const std::string& value_name, double* place,
              const std::string& help);
  void option(const std::string& name, const std::string& value_name, std::optional<double>* place,
              const std::string& help);

  /// A number of things, at least 1: a number, and k or m for powers of 1000, K or M for those of
  /// 1024; or "auto", which is 0.
  void count(const std::string& name, int* place, const std::string& help);

  /// A number of bytes: a whole or decimal number, and K, M, G or T (or KiB .. TiB) for powers of
  /// 1024.
  void bytes(const std::string& name, int64_t* place, const std::string& help);

  /// Fills the places. Null: go on. Otherwise the command ends with that exit code: 0 after --help
  /// was printed, 2 after a refusal was.
  std::optional<int> parse(const Arguments& arguments);

  /// Says on standard error what is wrong with the arguments together; returns the exit code of it.
  int refuse(const std::string& problem) const;

 private:
  struct Impl;
  /// Takes one value; returns what is wrong with it, or nothing.
  using Take = std::function<std::string(const std::string&)>;

  enum class Count { kAny, kAtMostOnce, kExactlyOnce };

  void add(const std::string& name, const std::string& value_name, const std::string& help,
           Count count, Take take);
  Arguments split_equals(const Arguments& arguments) const;
  std::string unknown_option() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
