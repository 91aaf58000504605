// stoker up: an engine from a snapshot, which answers over HTTP once its canary did.
#include <cstdio>
#include <string>

#include "commands.h"
#include "common.h"
#include "detach.h"
#include "json_text.h"
#include "loading.h"
#include "serving.h"
#include "stoker/snapshot.h"
#include "stoker/snapshot_travel.h"
#include "texts.h"

namespace stoker {
namespace {

double total_seconds(const BroughtUp& up) {
  double sum = 0;
  for (const StageTime& stage : up.stages) sum += stage.seconds;
  return sum;
}

std::string stages_json(const BroughtUp& up) {
  std::vector<std::string> stages;
  for (const StageTime& stage : up.stages) {
    JsonObject object;
    object.add("stage", json_string(stage.name)).add("seconds", json_number(stage.seconds));
    if (stage.num_bytes > 0) object.add("bytes", std::to_string(stage.num_bytes));
    if (!stage.how.empty()) object.add("how", json_string(stage.how));
    stages.push_back(object.text());
  }
  JsonObject out;
  out.add("snapshot", json_string(up.snapshot.id))
      .add("model", json_string(up.snapshot.model_name))
      .add("seconds", json_number(total_seconds(up)))
      .add("stages", json_array(stages));
  return out.text();
}

// "select 0.001 s, verify 0.012 s (13.4 MiB), canary 0.2 s"
std::string stages_text(const BroughtUp& up) {
  std::string text;
  for (const StageTime& stage : up.stages) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, " %.3f s", stage.seconds);
    text += (text.empty() ? "" : ", ") + stage.name + seconds;
    if (stage.num_bytes > 0) text += " (" + size_text(stage.num_bytes) + ")";
  }
  return text;
}

void tell(const BroughtUp& up, bool as_json) {
  if (as_json) {
    std::printf("%s\n", stages_json(up).c_str());
    std::fflush(stdout);
  }
  std::fprintf(stderr, "stoker: snapshot %s of %s: %s\n", up.snapshot.id.substr(0, 8).c_str(),
               up.snapshot.model_name.c_str(), stages_text(up).c_str());
}

Opened from_snapshot(const std::string& name, const SnapshotOptions& how, bool as_json) {
  auto up = bring_up(name, how);
  if (!up) {
    report(up.error());
    return {nullptr, snapshot_exit_code(up.error())};
  }
  tell(*up, as_json);
  return {std::move(up->engine), 0, up->snapshot.id};
}

bool has_one_that_fits(const UpOptions& options, const SnapshotOptions& how) {
  const auto found = list_snapshots(options.serve.model, how);
  // What is wrong with the store is told by who brings up.
  return !found || (!found->empty() && !found->front().passed_over);
}

// The name of a model; of a directory its last part, as it is served under.
std::string listed_name(std::string name) {
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name.substr(name.rfind('/') + 1);
}

// Where nothing fits, brings a snapshot from the catalogue. Returns 0, or the exit code of what was
// said.
int pull_if_none(const UpOptions& options, const SnapshotOptions& how) {
  if (has_one_that_fits(options, how)) return 0;
  std::fprintf(stderr, "stoker: no snapshot of %s fits here; looking in %s\n",
               options.serve.model.c_str(), options.catalogue.c_str());
  const auto pulled = pull_snapshot(listed_name(options.serve.model), options.catalogue, how);
  if (pulled) return 0;
  report(pulled.error());
  return snapshot_exit_code(pulled.error());
}

// Where nothing fits, makes a snapshot from the checkpoint, and the engine comes up from that.
// Returns 0, or the exit code of what was said.
int make_if_none(const UpOptions& options, const SnapshotOptions& how) {
  if (has_one_that_fits(options, how)) return 0;
  std::fprintf(stderr, "stoker: no snapshot of %s fits here; making one\n",
               options.serve.model.c_str());
  const auto made = create_snapshot(options.serve.model, how);
  if (made) return 0;
  report(made.error());
  return snapshot_exit_code(made.error());
}

int run_up(const Arguments& arguments, const UpOptions& options,
           const std::function<void()>& ready) {
  const auto open = [&options](EngineOptions engine) -> Opened {
    LoadingProgress progress;
    engine.progress = [&progress, also = std::move(engine.progress)](const Progress& now) {
      progress.update(now);
      also(now);
    };
    SnapshotOptions how;
    how.engine = std::move(engine);
    how.require_signature = options.require_signature;
    if (!options.catalogue.empty()) {
      const int code = pull_if_none(options, how);
      if (code != 0 && !options.or_cold) return {nullptr, code};
    }
    if (options.or_cold) {
      if (const int code = make_if_none(options, how); code != 0) return {nullptr, code};
    }
    return from_snapshot(options.serve.model, how, options.json);
  };
  const auto read_again = [&arguments](ServeOptions* again) {
    UpOptions all;
    const bool is_read = !read_up_options(arguments, &all);
    if (is_read) *again = std::move(all.serve);
    return is_read;
  };
  return run_server(options.serve, open, read_again, ready);
}

}  // namespace

int up_command(const Arguments& arguments) {
  UpOptions options;
  if (const auto code = read_up_options(arguments, &options)) return *code;
  if (!options.detach) return run_up(arguments, options, {});
  return run_detached(options.log, [&](const std::function<void()>& ready) {
    return run_up(arguments, options, ready);
  });
}

}  // namespace stoker
