#include "commands.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common.h"

namespace stoker {
namespace {

void print_menu(std::FILE* out, const CommandMenu& menu) {
  size_t width = 0;
  for (const Command& command : menu.commands) width = std::max(width, std::strlen(command.name));
  std::fputs(menu.usage.c_str(), out);
  for (const Command& command : menu.commands)
    std::fprintf(out, "  %-*s  %s\n", static_cast<int>(width), command.name, command.summary);
  std::fputs(menu.rest.c_str(), out);
}

}  // namespace

int run_chosen(const CommandMenu& menu, const Arguments& arguments) {
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (first == "--help") {
    print_menu(stdout, menu);
    return 0;
  }
  for (const Command& command : menu.commands) {
    if (first == command.name) return command.run({arguments.begin() + 1, arguments.end()});
  }
  if (!arguments.empty())
    std::fprintf(stderr, "stoker: expected a %s, found '%s'\n\n", menu.kind, first.c_str());
  print_menu(stderr, menu);
  return error_code_info(ErrorCode::kInvalidArgument).exit_code;
}

}  // namespace stoker
