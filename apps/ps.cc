// stoker ps and stoker down: the servers of this user that run, and the end of one.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "running.h"

namespace stoker {
namespace {

constexpr std::chrono::milliseconds kDownPeriod{50};

std::string server_line(const RunningServer& server) {
  const std::string from = server.snapshot.empty() ? "checkpoint" : server.snapshot.substr(0, 8);
  return std::to_string(server.pid) + "  " + server.model + "  " + server.url + "  " + from + "  " +
         server.started + "\n";
}

std::string server_json(const RunningServer& server) {
  return JsonObject()
             .add("pid", std::to_string(server.pid))
             .add("model", json_string(server.model))
             .add("url", json_string(server.url))
             .add("snapshot", json_string(server.snapshot))
             .add("started", json_string(server.started))
             .text() +
         "\n";
}

bool is_meant(const RunningServer& server, const std::string& name) {
  const bool is_snapshot =
      name.size() >= 4 && !server.snapshot.empty() && server.snapshot.starts_with(name);
  return server.model == name || std::to_string(server.pid) == name || is_snapshot;
}

// Whether one that was sent a signal is gone in time.
bool is_gone_after(const RunningServer& server, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    const auto servers = running_servers();
    if (servers && std::ranges::find(*servers, server.pid, &RunningServer::pid) == servers->end())
      return true;
    std::this_thread::sleep_for(kDownPeriod);
  }
  return false;
}

int end_server(const RunningServer& server, std::chrono::seconds limit) {
  if (::kill(server.pid, SIGTERM) != 0) {
    return report(
        {ErrorCode::kIo, "process " + std::to_string(server.pid) + " cannot be sent a signal", ""});
  }
  if (is_gone_after(server, limit)) return 0;
  return report({ErrorCode::kDeadlineExceeded,
                 "process " + std::to_string(server.pid) + " still runs after " +
                     std::to_string(limit.count()) + " s; a second signal ends it at once",
                 ""});
}

}  // namespace

int ps_command(const Arguments& arguments) {
  bool json = false;
  OptionParser parser("ps",
                      "The servers of this user that run and are ready: process, model, address, "
                      "snapshot, since when.",
                      "  stoker ps\n");
  parser.flag("--json", &json, "A line of JSON for each");
  if (const auto code = parser.parse(arguments)) return *code;
  const auto servers = running_servers();
  if (!servers) return report(servers.error());
  std::string text;
  for (const RunningServer& server : *servers)
    text += json ? server_json(server) : server_line(server);
  return print_result(text);
}

int down_command(const Arguments& arguments) {
  std::string name;
  bool all = false;
  int timeout = 60;
  OptionParser parser("down",
                      "Ends a server: what it runs is finished first, within its "
                      "--shutdown-timeout. Returns once it is gone.",
                      "  stoker down demo\n");
  parser.positional("NAME", &name,
                    "the name of its model, its process id, or the beginning of its snapshot's id");
  parser.flag("--all", &all, "All that NAME means, where it means several");
  parser.option("--timeout", "S", &timeout, "Seconds to wait for its end [60]");
  if (const auto code = parser.parse(arguments)) return *code;
  if (timeout < 0 || timeout > 1'000'000)
    return parser.refuse("--timeout: expected 0 to 1000000, found " + std::to_string(timeout));
  auto servers = running_servers();
  if (!servers) return report(servers.error());
  std::erase_if(*servers, [&](const RunningServer& server) { return !is_meant(server, name); });
  if (servers->empty()) {
    return report({ErrorCode::kNotFound,
                   "expected a running server of " + name + ", found none (stoker ps lists them)",
                   ""});
  }
  if (servers->size() > 1 && !all) {
    std::string found;
    for (const RunningServer& server : *servers) found += "\n  " + server_line(server);
    found.pop_back();
    return report(
        {ErrorCode::kInvalidArgument,
         name + ": expected one server, found several; give a process id, or --all:" + found, ""});
  }
  int code = 0;
  for (const RunningServer& server : *servers)
    code = std::max(code, end_server(server, std::chrono::seconds(timeout)));
  return code;
}

}  // namespace stoker
