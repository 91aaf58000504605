#include "config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common.h"
#include "json_text.h"

namespace stoker {
namespace {

constexpr const char* kOption = "--config";
constexpr int kMaxDepth = 32;

Error wrong_config(const std::string& file, const std::string& what) {
  return {ErrorCode::kInvalidArgument, file + ": " + what, "config"};
}

// Takes "--config FILE" or "--config=FILE" out of the arguments. Behind "--" nothing is an option.
Result<std::optional<std::string>> take_file(Arguments& arguments) {
  const std::string prefix = std::string(kOption) + "=";
  std::optional<std::string> file;
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--";) {
    const bool is_split = arguments[i] == kOption;
    if (!is_split && !arguments[i].starts_with(prefix)) {
      ++i;
      continue;
    }
    if (file || (is_split && i + 1 == arguments.size()))
      return Error{ErrorCode::kInvalidArgument, "--config: expected one file", "config"};
    file = is_split ? arguments[i + 1] : arguments[i].substr(prefix.size());
    const auto at = arguments.begin() + static_cast<ptrdiff_t>(i);
    arguments.erase(at, at + (is_split ? 2 : 1));
  }
  return file;
}

bool is_given(const Arguments& arguments, const std::string& option) {
  return std::any_of(arguments.begin(), arguments.end(), [&option](const std::string& argument) {
    return argument == option || argument.starts_with(option + "=");
  });
}

// A scalar as JSON: what reads as a number or a boolean there is one, unless it is quoted.
std::string scalar_json(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return json_string(text);
  if (text == "true" || text == "false") return text;
  double number = 0;
  return YAML::convert<double>::decode(node, number) ? text : json_string(text);
}

Result<std::string> json_of(const YAML::Node& node, int depth) {
  if (depth > kMaxDepth)
    return Error{ErrorCode::kInvalidArgument, "a value is nested too deep", "config"};
  if (node.IsNull()) return std::string("null");
  if (node.IsScalar()) return scalar_json(node);
  std::string out;
  for (const auto& item : node) {
    if (!out.empty()) out += ",";
    if (node.IsMap()) out += json_string(item.first.as<std::string>()) + ":";
    auto value = json_of(node.IsMap() ? item.second : item, depth + 1);
    if (!value) return value;
    out += *value;
  }
  return node.IsMap() ? "{" + out + "}" : "[" + out + "]";
}

Result<void> add_value(const std::string& option, const YAML::Node& value, Arguments& out) {
  if (value.IsNull() || (value.IsScalar() && value.Tag() != "!" && value.Scalar() == "false"))
    return {};
  if (value.IsMap() || value.IsSequence()) {
    const bool is_list_of_values =
        value.IsSequence() && std::all_of(value.begin(), value.end(), [](const auto& item) {
          return item.IsScalar() || item.IsNull();
        });
    if (!is_list_of_values) {
      const auto json = json_of(value, 0);
      if (!json) return json.error();
      out.push_back(option + "=" + *json);
      return {};
    }
    for (const auto& item : value) {
      if (auto added = add_value(option, item, out); !added) return added;
    }
  } else if (value.Tag() != "!" && value.Scalar() == "true") {
    out.push_back(option);
  } else {
    out.push_back(option + "=" + value.Scalar());
  }
  return {};
}

Result<Arguments> options_of(const YAML::Node& root, const std::string& file,
                             const Arguments& given) {
  Arguments out;
  if (root.IsNull()) return out;
  if (!root.IsMap()) return wrong_config(file, "expected a mapping of options to values");
  for (const auto& item : root) {
    std::string name = item.first.as<std::string>();
    std::replace(name.begin(), name.end(), '_', '-');
    if (name.empty() || name == "config")
      return wrong_config(file, "expected names of options, found '" + name + "'");
    if (name == "model" && item.second.IsScalar()) {
      const bool has_model = !given.empty() && !given.front().starts_with("-");
      if (!has_model) out.insert(out.begin(), item.second.Scalar());
    } else if (!is_given(given, "--" + name)) {
      if (auto added = add_value("--" + name, item.second, out); !added)
        return wrong_config(file, name + ": " + added.error().message);
    }
  }
  return out;
}

}  // namespace

Result<Arguments> with_config_file(Arguments arguments) {
  auto file = take_file(arguments);
  if (!file) return std::move(file).error();
  if (!*file) return arguments;
  const auto text = read_file(**file);
  if (!text) return text.error();
  try {
    auto options = options_of(YAML::Load(*text), **file, arguments);
    if (!options) return std::move(options).error();
    // Both may have the model in front; options may stand anywhere before "--".
    const bool begins_with_model = !arguments.empty() && !arguments.front().starts_with("-");
    arguments.insert(arguments.begin() + (begins_with_model ? 1 : 0), options->begin(),
                     options->end());
    return arguments;
  } catch (const YAML::Exception& exception) {
    return wrong_config(**file, exception.what());
  }
}

}  // namespace stoker
