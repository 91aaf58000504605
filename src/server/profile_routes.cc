#include "server/profile_routes.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "base/json.h"
#include "base/mapped_file.h"

namespace stoker {
namespace {

PlainAnswer refused_profile(HttpError error) {
  return {error.status, "", "", std::move(error)};
}

// On the storage's thread.
void write_profile(const ServerContext& context, const std::string& text, const std::string& path) {
  const auto written =
      write_file_atomically(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  if (written) {
    context.log(LogLevel::kInfo, "event=profile file=" + path);
  } else {
    context.log(LogLevel::kError, "event=profile reason=\"" + written.error().message + "\"");
  }
}

}  // namespace

PlainAnswer start_profile(ServerContext& context) {
  const std::string& folder = context.options.profile_folder;
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return refused_profile({500, folder + ": no files can be written there", "", ""});
  const auto started = context.engine->start_profile();
  if (!started) return refused_profile(to_http_error(started.error()));
  return {};
}

PlainAnswer stop_profile(ServerContext& context) {
  auto steps = context.engine->stop_profile();
  if (!steps) return refused_profile(to_http_error(steps.error()));
  const std::string path = context.options.profile_folder + "/steps-" +
                           std::to_string(unix_seconds()) + "-" +
                           std::to_string(++context.num_profiles) + ".json";
  boost::asio::post(context.storage, [&context, steps = *std::move(steps), path] {
    write_profile(context, steps(), path);
  });
  Json out = Json::object();
  out.set("file", Json::string(path));
  return {200, out.dump()};
}

}  // namespace stoker
