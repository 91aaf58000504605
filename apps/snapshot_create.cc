// stoker snapshot create: of a checkpoint, or by a server of the engine that it runs.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "common.h"
#include "snapshot_verbs.h"
#include "stoker/snapshot.h"

namespace stoker {
namespace {

constexpr const char* kCreateExamples =
    "  stoker snapshot create demo\n"
    "  stoker snapshot create /models/DeepSeek-V4.1-Flash --name flash\n"
    "  STOKER_ADMIN_API_KEY=... stoker snapshot create --from http://127.0.0.1:8000 --prefixes "
    "20\n";

// Where a running engine is, and what of it is saved.
struct FromServer {
  std::optional<std::string> url;
  std::optional<std::string> key;
  std::optional<int32_t> prefixes;
};

void declare_from(OptionParser& parser, FromServer* from) {
  parser.option("--from", "URL", &from->url,
                "Have a running server save its engine, in place of MODEL: http://HOST:PORT, "
                "https://... or unix:PATH, as `stoker ps` tells it");
  parser.option("--prefixes", "N", &from->prefixes,
                "With --from: keep the N prefixes of its cache that were used last, 0 to 256; they "
                "hold what users wrote, and the snapshot then stays on its host [0]");
  parser.option("--admin-api-key", "[NAME=]KEY", &from->key,
                "With --from: a key of the server's administrators; also STOKER_ADMIN_API_KEY");
}

// The secret of a key as servers are given it.
std::string secret_of(const std::optional<std::string>& key) {
  const char* const variable = std::getenv("STOKER_ADMIN_API_KEY");
  const std::string text = key ? *key : variable != nullptr ? variable : "";
  return text.substr(text.find('=') + 1);
}

// What is wrong with the arguments together; "" for nothing.
std::string problem_of(const std::optional<std::string>& model, const FromServer& from,
                       const SnapshotOptions& how) {
  if (model && from.url) return "expected MODEL or --from, found both";
  if (!from.url) {
    if (!model) return std::string("expected MODEL, ") + kModelHelp + ", or --from URL";
    if (from.prefixes || from.key) return "--prefixes and --admin-api-key: expected --from too";
    return "";
  }
  const EngineOptions& engine = how.engine;
  const bool has_others = !how.sign_key.empty() || !engine.weights.store.empty() ||
                          engine.num_threads != 0 ||
                          engine.bounded_replay != EngineOptions().bounded_replay;
  if (has_others)
    return "--sign, --store, --threads and --bounded-replay: expected none with --from, whose "
           "server has its own";
  if (from.prefixes && (*from.prefixes < 0 || *from.prefixes > kMaxSavedPrefixes))
    return "--prefixes: expected 0 to " + std::to_string(kMaxSavedPrefixes) + ", found " +
           std::to_string(*from.prefixes);
  return "";
}

int create_from(const FromServer& from, const std::string& name) {
  SaveSnapshot what;
  what.name = name;
  what.max_prefixes = from.prefixes.value_or(0);
  std::fprintf(stderr, "stoker: %s saves its engine, which may take minutes\n", from.url->c_str());
  const auto saved = save_snapshot_of(*from.url, secret_of(from.key), what);
  if (!saved) return report_snapshot(saved.error());
  const std::string id = saved->info.id.substr(0, 8);
  if (from.prefixes)
    std::fprintf(stderr, "stoker: with %d prefixes of %lld tokens\n", saved->num_prefixes,
                 static_cast<long long>(saved->num_prefix_tokens));
  std::fprintf(stderr, "stoker: `stoker up %s` brings it back there\n", id.c_str());
  return print_result(created_text(saved->info) + "\n");
}

// A snapshot that cannot come back is none.
int check_new(const SnapshotInfo& made, const SnapshotOptions& how) {
  SnapshotOptions again = how;
  again.engine.weights.verify = Verify::kFull;
  const auto up = bring_up(made.id, again);
  if (up) return 0;
  report(up.error());
  (void)remove_snapshot(made.id, how);
  return snapshot_exit_code(up.error());
}

}  // namespace

int create_verb(const Arguments& arguments) {
  VerbOptions options;
  std::optional<std::string> model;
  FromServer from;
  OptionParser parser("snapshot create",
                      "Packs a model, measures the kernels of this machine, asks a canary, and "
                      "keeps all of it, so that `stoker up` brings the engine back. Ends with 0 "
                      "once it came back. With --from a running server does so with its engine, "
                      "beside its requests.",
                      kCreateExamples);
  parser.positional("MODEL", &model, kModelHelp);
  parser.option("--name", "NAME", &options.how.name,
                "As which it is served and found [the last part of its path]");
  parser.option("--sign", "KEY.pem", &options.how.sign_key,
                "Sign it with this Ed25519 private key, with the SHA-256 of all that it holds");
  declare_from(parser, &from);
  options.declare(parser);
  add_replay_option(parser, &options.how.engine.bounded_replay);
  if (const auto code = parser.parse(arguments)) return *code;
  if (const std::string problem = problem_of(model, from, options.how); !problem.empty())
    return parser.refuse(problem);
  if (from.url) return create_from(from, options.how.name);
  options.how.engine.tune_seconds = 3;
  const auto made = create_snapshot(*model, options.how);
  if (!made) return report_snapshot(made.error());
  if (const int code = check_new(*made, options.how); code != 0) return code;
  return print_result(created_text(*made) + "\n");
}

}  // namespace stoker
