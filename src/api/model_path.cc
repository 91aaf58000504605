// Which directory a MODEL argument means, and the version: the parts of the door that need no
// model.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "stoker/engine.h"
#include "stoker/version.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

bool directory_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Where the demo model may lie: beside an installed program, or in the source tree that this was
// built from.
std::array<fs::path, 2> demo_places() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return {program.parent_path().parent_path() / "share/stoker/models/demo",
          fs::path(STOKER_MODELS_DIR) / "demo"};
}

}  // namespace

Result<std::string> resolve_model(const std::string& model) {
  if (model == "demo") {
    for (const fs::path& place : demo_places()) {
      if (directory_exists(place)) return place.string();
    }
    return Error{ErrorCode::kNotFound,
                 "the demo model is not installed: expected it in " + demo_places()[0].string(),
                 "model"};
  }
  if (directory_exists(model)) return model;
  return Error{ErrorCode::kNotFound,
               model + ": expected the directory of a checkpoint, or the name demo", "model"};
}

const char* version() {
  return STOKER_VERSION;
}

}  // namespace stoker
