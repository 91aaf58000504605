#include "options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>
#include <utility>

#include "stoker/error.h"

namespace stoker {
namespace {

template <class Number>
std::string expected_number() {
  if constexpr (std::is_floating_point_v<Number>) {
    return "a number";
  } else {
    return "a whole number from " + std::to_string(std::numeric_limits<Number>::min()) + " to " +
           std::to_string(std::numeric_limits<Number>::max());
  }
}

/// Reads `text` as a Number into `place`, a Number or an optional one.
template <class Number, class Place>
std::function<std::string(const std::string&)> take_number(Place* place) {
  return [place](const std::string& text) -> std::string {
    Number number{};
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, number);
    if (code != std::errc() || stop != end) {
      return "expected " + expected_number<Number>() + ", found '" + text + "'";
    }
    *place = number;
    return {};
  };
}

/// "1.5Gi" -> 1.5 and "Gi". A number alone has the empty unit.
struct Quantity {
  double number = 0;
  std::string unit;
};
std::optional<Quantity> split_quantity(const std::string& text) {
  Quantity quantity;
  const auto [stop, code] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  if (code != std::errc()) return std::nullopt;
  quantity.unit.assign(stop, text.data() + text.size());
  return quantity;
}

/// The power of a unit in a list of letters, from 1; 0 for no unit, none for another one.
std::optional<int> power_of(const std::string& unit, std::string_view letters) {
  if (unit.empty()) return 0;
  const size_t power = letters.find(unit);
  if (unit.size() != 1 || power == std::string_view::npos) return std::nullopt;
  return static_cast<int>(power) + 1;
}

/// "1M" -> 1048576, "128k" -> 128000: as vLLM has them; none for what is no whole number then.
std::optional<int64_t> parse_count(const std::string& text) {
  const auto quantity = split_quantity(text);
  if (!quantity) return std::nullopt;
  double number = quantity->number;
  if (const auto binary = power_of(quantity->unit, "KMG")) {
    number = std::ldexp(number, 10 * *binary);
  } else if (const auto decimal = power_of(quantity->unit, "kmg")) {
    number *= std::pow(1000, *decimal);
  } else {
    return std::nullopt;
  }
  if (!(number >= 1 && number <= 0x1p31) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

/// "1.5GiB" -> 1610612736; none for what is no size, or one beyond 2^62.
std::optional<int64_t> parse_bytes(const std::string& text) {
  auto quantity = split_quantity(text);
  if (!quantity || !(quantity->number >= 0)) return std::nullopt;
  std::string& unit = quantity->unit;
  if (unit.ends_with("iB")) unit.resize(unit.size() - 2);
  const auto power = power_of(unit, "KMGT");
  if (!power) return std::nullopt;
  const double bytes = std::ldexp(quantity->number, 10 * *power);
  if (!(bytes <= 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace

struct OptionParser::Impl {
  struct Slot {
    CLI::Option* option;
    std::string name, help;
    Count count;
    Take take;
  };

  /// Hands the values that were given to a slot; returns what is wrong with them, or nothing.
  static std::string fill(const Slot& slot) {
    const std::vector<std::string>& values = slot.option->results();
    if (values.empty() && slot.count == Count::kExactlyOnce)
      return "expected " + slot.name + ": " + slot.help;
    if (values.size() > 1 && slot.count != Count::kAny) {
      return slot.name + ": expected once, found " + std::to_string(values.size()) + " times";
    }
    for (const std::string& value : values) {
      const std::string problem = slot.take(value);
      if (!problem.empty()) return slot.name + ": " + problem;
    }
    return {};
  }

  explicit Impl(const std::string& summary, const std::string& name)
      : app(summary, "stoker " + name), command(name) {}

  CLI::App app;
  std::string command;
  std::string group = "Options";
  std::vector<Slot> slots;
  std::vector<std::string> names;  ///< of all options, for the refusal of an unknown one
};

OptionParser::OptionParser(const std::string& command, const std::string& summary,
                           const std::string& examples)
    : impl_(std::make_unique<Impl>(summary, command)) {
  impl_->app.set_help_flag("--help", "Print this and exit");
  impl_->app.footer("Examples:\n" + examples);
}

OptionParser::~OptionParser() = default;

void OptionParser::group(const std::string& name) {
  impl_->group = name;
}

void OptionParser::flag(const std::string& name, bool* place, const std::string& help) {
  checked_flag(
      name,
      [place] {
        *place = true;
        return std::string();
      },
      help);
}

void OptionParser::off_flag(const std::string& name, bool* place, const std::string& help) {
  checked_flag(
      name,
      [place] {
        *place = false;
        return std::string();
      },
      help);
}

void OptionParser::checked_flag(const std::string& name, const std::function<std::string()>& take,
                                const std::string& help) {
  CLI::Option* option = impl_->app.add_flag(name, help);
  option->group(impl_->group);
  impl_->slots.push_back(
      {option, name, help, Count::kAny, [take](const std::string& /*value*/) { return take(); }});
  if (!impl_->group.empty()) impl_->names.push_back(name);
}

void OptionParser::choice(const std::string& name, const std::vector<std::string>& words,
                          const std::function<void(size_t)>& take, const std::string& help) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : "|") + word;
  add(name, all, help, Count::kAtMostOnce, [words, take, all](const std::string& value) {
    const auto found = std::find(words.begin(), words.end(), value);
    if (found == words.end()) return "expected " + all + ", found '" + value + "'";
    take(static_cast<size_t>(found - words.begin()));
    return std::string();
  });
}

void OptionParser::positional(const std::string& name, std::string* place,
                              const std::string& help) {
  add(name, " ", help, Count::kExactlyOnce, [place](const std::string& value) {
    *place = value;
    return std::string();
  });
}

void OptionParser::positional(const std::string& name, std::optional<std::string>* place,
                              const std::string& help) {
  add(name, " ", help, Count::kAtMostOnce, [place](const std::string& value) {
    *place = value;
    return std::string();
  });
}

void OptionParser::add(const std::string& name, const std::string& value_name,
                       const std::string& help, Count count, Take take) {
  CLI::Option* option = impl_->app.add_option(name, CLI::callback_t(), help);
  option->required(count == Count::kExactlyOnce);
  option->type_name(value_name)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (name.starts_with("-")) option->group(impl_->group);
  impl_->slots.push_back({option, name, help, count, std::move(take)});
  if (name.starts_with("-") && !impl_->group.empty()) impl_->names.push_back(name);
}

void OptionParser::option(const std::string& name, const std::string& value_name,
                          std::string* place, const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, [place](const std::string& value) {
    *place = value;
    return std::string();
  });
}

void OptionParser::option(const std::string& name, const std::string& value_name,
                          std::optional<std::string>* place, const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, [place](const std::string& value) {
    *place = value;
    return std::string();
  });
}

void OptionParser::option(const std::string& name, const std::string& value_name,
                          std::vector<std::string>* place, const std::string& help) {
  add(name, value_name, help, Count::kAny, [place](const std::string& value) {
    place->push_back(value);
    return std::string();
  });
}

void OptionParser::option(const std::string& name, const std::string& value_name, int* place,
                          const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, take_number<int>(place));
}

void OptionParser::option(const std::string& name, const std::string& value_name,
                          std::optional<int32_t>* place, const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, take_number<int32_t>(place));
}

void OptionParser::option(const std::string& name, const std::string& value_name,
                          std::optional<uint64_t>* place, const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, take_number<uint64_t>(place));
}

void OptionParser::option(const std::string& name, const std::string& value_name, double* place,
                          const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, take_number<double>(place));
}

void OptionParser::option(const std::string& name, const std::string& value_name,
                          std::optional<double>* place, const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, take_number<double>(place));
}

void OptionParser::checked_option(const std::string& name, const std::string& value_name,
                                  const std::function<std::string(const std::string&)>& take,
                                  const std::string& help) {
  add(name, value_name, help, Count::kAtMostOnce, take);
}

void OptionParser::count(const std::string& name, int* place, const std::string& help) {
  add(name, "N", help, Count::kAtMostOnce, [place](const std::string& value) {
    const auto number = parse_count(value);
    if (value != "auto" && (!number || *number > std::numeric_limits<int>::max()))
      return "expected auto, or a number such as 4096, 128k or 1M, found '" + value + "'";
    *place = static_cast<int>(number.value_or(0));
    return std::string();
  });
}

void OptionParser::bytes(const std::string& name, int64_t* place, const std::string& help) {
  add(name, "SIZE", help, Count::kAtMostOnce, [place](const std::string& value) {
    const auto bytes = parse_bytes(value);
    if (!bytes) return "expected a size such as 512M or 8GiB, found '" + value + "'";
    *place = *bytes;
    return std::string();
  });
}

/// `--name=value` as two arguments. The library does so itself, but takes the next argument where
/// the value is empty.
Arguments OptionParser::split_equals(const Arguments& arguments) const {
  Arguments out;
  bool is_value = false;  // of the option before
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!is_value && argument == "--") {
      out.insert(out.end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
      break;
    }
    const size_t equals = argument.find('=');
    if (!is_value && argument.starts_with("--") && equals != std::string::npos) {
      out.push_back(argument.substr(0, equals));
      out.push_back(argument.substr(equals + 1));
      continue;
    }
    out.push_back(argument);
    const CLI::Option* option = !is_value && argument.starts_with("--")
                                    ? impl_->app.get_option_no_throw(argument)
                                    : nullptr;
    is_value = option != nullptr && option->get_items_expected_max() > 0;
  }
  return out;
}

std::string OptionParser::unknown_option() const {
  const std::vector<std::string> extras = impl_->app.remaining();
  const std::string first = extras.empty() ? "" : extras.front();
  if (!first.starts_with("-")) return "expected no further argument, found '" + first + "'";
  std::string known;
  for (const std::string& name : impl_->names) known += " " + name;
  return "unknown option " + first + "; expected one of" + known;
}

std::optional<int> OptionParser::parse(const Arguments& arguments) {
  Arguments reversed = split_equals(arguments);
  std::reverse(reversed.begin(), reversed.end());  // as the library takes a vector
  try {
    impl_->app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    std::fputs(impl_->app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ExtrasError&) {
    return refuse(unknown_option());
  } catch (const CLI::ArgumentMismatch&) {
    return refuse("expected a value after " + arguments.back());
  } catch (const CLI::RequiredError&) {
    // fill() says it better
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  for (const Impl::Slot& slot : impl_->slots) {
    const std::string problem = Impl::fill(slot);
    if (!problem.empty()) return refuse(problem);
  }
  return std::nullopt;
}

int OptionParser::refuse(const std::string& problem) const {
  std::fprintf(stderr, "stoker %s: %s\nstoker %s --help shows what it takes\n",
               impl_->command.c_str(), problem.c_str(), impl_->command.c_str());
  return error_code_info(ErrorCode::kInvalidArgument).exit_code;
}

}  // namespace stoker
