// Typed reading of one object of config.json. The first mistake is kept; what is read after it has
// no meaning, so that a caller reads everything in a row and asks for the error once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "stoker/error.h"

namespace stoker {

/// A key by its released name and, where it has one, its short name, which wins where both are
/// there.
struct ConfigKey {
  // NOLINTNEXTLINE(google-explicit-constructor): a key is written as its name
  ConfigKey(const char* released, const char* brief = nullptr)
      : name(released), short_name(brief) {}
  const char* name;
  const char* short_name;
};

/// Reads members of `object`, which it borrows. Messages name "prefix" + key.
class ConfigReader {
 public:
  ConfigReader(const Json& object, std::string prefix)
      : object_(object), prefix_(std::move(prefix)) {}

  /// The key's value, or null where it is missing.
  const Json* find(ConfigKey key) const;
  /// The same; a JSON null counts as missing.
  const Json* find_value(ConfigKey key) const;

  /// An integer in [low, high]. With a fallback the key may be missing or null.
  int32_t integer(ConfigKey key, int64_t low, int64_t high);
  int32_t integer_or(ConfigKey key, int32_t fallback, int64_t low, int64_t high);
  int64_t long_integer(ConfigKey key, int64_t low, int64_t high);
  /// A positive multiple of 32, at most `high`.
  int32_t multiple_of_32(ConfigKey key, int64_t high);
  /// A number in [low, high].
  double real(ConfigKey key, double low, double high);
  double real_or(ConfigKey key, double fallback, double low, double high);
  bool boolean(ConfigKey key);
  /// A string.
  std::string text(ConfigKey key);
  std::vector<int64_t> integers(ConfigKey key, int64_t low, int64_t high);
  /// Ascending layer numbers in [0, num_layers).
  std::vector<int32_t> layers(ConfigKey key, int32_t num_layers);

  /// A key that may be missing, and must have this value (as JSON text) if it is there: else
  /// kUnsupported.
  void require(ConfigKey key, const Json& value);

  /// Notes "prefix + key: expected `expected`, found `what`", unless there is a mistake already.
  void fail(ErrorCode code, ConfigKey key, const std::string& expected, const std::string& what);

  /// A reader of the object under `name`.
  ConfigReader child(const Json& object, const std::string& name) const;
  /// Takes over the mistake of a reader made by child().
  void adopt(const ConfigReader& other);

  const std::optional<Error>& error() const { return error_; }

 private:
  const Json* required(ConfigKey key, const std::string& expected);
  int64_t checked_integer(const Json& value, ConfigKey key, int64_t low, int64_t high);
  double checked_real(const Json& value, ConfigKey key, double low, double high);

  const Json& object_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace stoker
