#include "serve_options.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "common.h"
#include "config_file.h"
#include "vllm_options.h"

namespace stoker {
namespace {

constexpr const char* kServeExamples =
    "  stoker serve demo\n"
    "  stoker serve /models/DeepSeek-V4.1-Flash --host 0.0.0.0 --port 8080 --served-model-name "
    "deepseek\n"
    "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
    "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of "
    "France?\"}]}'\n";

constexpr const char* kUpExamples =
    "  stoker up demo\n"
    "  stoker up demo --or-cold --port 8080 --detach\n"
    "  stoker up 3f9a --verify background --json\n";

/// What options are read into before they are checked.
struct Drafted {
  int port = ServerOptions().port;
  std::vector<std::string> api_keys, admin_api_keys;
  std::vector<std::string> origins, methods, headers;
  int64_t max_batch_file_bytes = static_cast<int64_t>(ServerOptions().max_batch_file_bytes);
  int64_t max_body_bytes = static_cast<int64_t>(ServerOptions().max_body_bytes);
  int ping_seconds = 15;
  std::string config;  ///< for --help: with_config_file has taken it
};

/// The keys of an option, or the one of the environment where the option is not there. `kind` names
/// those without a name of their own: "key-1", "key-2", ...
Result<std::vector<ApiKey>> read_keys(std::vector<std::string> texts,
                                      const std::vector<const char*>& variables,
                                      const std::string& kind) {
  for (const char* variable : variables) {
    const char* value = std::getenv(variable);
    if (texts.empty() && value != nullptr && *value != '\0') texts.emplace_back(value);
  }
  std::vector<ApiKey> keys;
  for (const std::string& text : texts) {
    auto key = parse_api_key(text, kind + "-" + std::to_string(keys.size() + 1));
    if (!key) return std::move(key).error();
    keys.push_back(*std::move(key));
  }
  return keys;
}

/// What is wrong, or nothing.
std::string read_cors(const Drafted& drafted, CorsRules* cors) {
  const struct {
    const char* name;
    const std::vector<std::string>* texts;
    std::vector<std::string>* items;
  } rows[] = {{"--allowed-origins", &drafted.origins, &cors->origins},
              {"--allowed-methods", &drafted.methods, &cors->methods},
              {"--allowed-headers", &drafted.headers, &cors->headers}};
  for (const auto& row : rows) {
    auto items = parse_cors_list(*row.texts);
    if (!items) return std::string(row.name) + ": " + items.error().message;
    if (!row.texts->empty()) *row.items = *std::move(items);
  }
  return {};
}

void add_process_options(OptionParser& parser, ServeOptions* options, Drafted* drafted) {
  parser.option(
      "--config", "FILE", &drafted->config,
      "Options from a YAML file: their names without the dashes; those on the command line "
      "come first");
  parser.option("--shutdown-timeout", "S", &options->shutdown_seconds,
                "Seconds that what runs has to finish after SIGTERM or SIGINT [30]");
  parser.group("Where it listens");
  parser.option("--host", "ADDRESS", &options->server.host,
                "An address of this machine [127.0.0.1]");
  parser.option("--port", "N", &drafted->port, "0 takes a free one and tells it [8000]");
  parser.option("--uds", "PATH", &options->server.unix_socket,
                "Listens on a Unix socket there, instead of an address and port");
}

void add_client_options(OptionParser& parser, ServerOptions* server, EngineOptions* engine,
                        Drafted* drafted) {
  parser.group("Clients");
  add_served_names_option(parser, &server->served_model_names);
  parser.option("--api-key", "[NAME=]KEY", &drafted->api_keys,
                "Clients must show one of these; may be given several times; also "
                "STOKER_API_KEY [everybody is served]");
  parser.option("--admin-api-key", "[NAME=]KEY", &drafted->admin_api_keys,
                "Opens the routes for administrators to who shows it; also STOKER_ADMIN_API_KEY "
                "[no such routes]");
  parser.option("--max-requests-per-key", "N", &server->max_requests_per_key,
                "Requests of a key that are answered at the same time; one more is 429 [no limit]");
  parser.option("--max-queue", "N", &engine->max_queue,
                "Requests that wait for their turn; one more is 429 [1024]");
  parser.flag("--metrics-auth", &server->metrics_need_key, "/metrics takes a key too");
  parser.option("--profile-dir", "DIR", &server->profile_folder,
                "Where /stop_profile writes what steps took [no such routes]");
  parser.off_flag("--no-page", &server->page, "No page for browsers at /");
  parser.flag("--enable-tokenizer-info-endpoint", &server->tokenizer_info,
              "Tells the tokenizer's first and last token at /tokenizer_info");
  parser.flag("--enable-per-request-metrics", &server->per_request_metrics,
              "Answers of OpenAI's routes tell the times of their request as metrics");
  parser.flag("--enable-force-include-usage", &server->force_include_usage,
              "Every stream of them ends with its usage, whatever stream_options says");
  parser.flag("--strict-requests", &server->strict_requests,
              "A field that no table knows is a 400; else it is logged once and ignored");
  parser.bytes("--max-request-body-bytes", &drafted->max_body_bytes,
               "The most that a request's body may have [64M]");
  parser.option("--sse-ping-interval-s", "S", &drafted->ping_seconds,
                "Seconds of silence in a stream before a comment is sent; 0: never [15]");
}

void add_cors_options(OptionParser& parser, ServerOptions* server, Drafted* drafted) {
  parser.group("Pages of other origins in browsers");
  parser.option("--allowed-origins", "LIST", &drafted->origins,
                "Those that may read answers, e.g. '[\"https://chat.example\"]' [[\"*\"], which is "
                "all]");
  parser.option("--allowed-methods", "LIST", &drafted->methods,
                "What they may ask with [[\"*\"], those of the route]");
  parser.option("--allowed-headers", "LIST", &drafted->headers,
                "What they may send in a request's head [[\"*\"]]");
  parser.flag("--allow-credentials", &server->cors.has_credentials,
              "They may send cookies and keys that the browser keeps");
}

void add_batch_options(OptionParser& parser, ServerOptions* server, Drafted* drafted) {
  parser.group("Files and batches");
  parser.option("--batch-dir", "DIR", &server->batch_folder,
                "Keeps files and batches there, for /v1/files and /v1/batches; of one server at a "
                "time [no such routes]");
  parser.bytes("--max-batch-file-bytes", &drafted->max_batch_file_bytes,
               "The most that an upload may have [200M]");
  parser.option("--max-batch-files", "N", &server->max_batch_files,
                "Files that are kept at the same time; one more is 429 [1000]");
  parser.option("--batch-concurrency", "N", &server->batch_concurrency,
                "Requests of a batch that are in the engine at the same time, behind all others "
                "[8]");
}

/// What is wrong with numbers that have limits, or nothing.
std::string number_problem(const ServeOptions& options, const Drafted& drafted) {
  const struct {
    const char* name;
    int64_t least, most, found;
  } rows[] = {{"--port", 0, 65535, drafted.port},
              {"--shutdown-timeout", 0, 1'000'000, options.shutdown_seconds},
              {"--max-queue", 0, INT32_MAX, options.engine.max_queue},
              {"--max-requests-per-key", 0, INT32_MAX, options.server.max_requests_per_key},
              {"--max-request-body-bytes", 1, int64_t{1} << 40, drafted.max_body_bytes},
              {"--sse-ping-interval-s", 0, 1'000'000, drafted.ping_seconds},
              {"--max-batch-file-bytes", 1, INT64_MAX, drafted.max_batch_file_bytes},
              {"--max-batch-files", 1, INT32_MAX, options.server.max_batch_files},
              {"--batch-concurrency", 1, INT32_MAX, options.server.batch_concurrency}};
  for (const auto& row : rows) {
    if (row.found >= row.least && row.found <= row.most) continue;
    return std::string(row.name) + ": expected " + std::to_string(row.least) + " to " +
           std::to_string(row.most) + ", found " + std::to_string(row.found);
  }
  return {};
}

/// Numbers that were checked, and keys. What is wrong with these, or nothing.
std::string take(Drafted drafted, ServeOptions* options) {
  ServerOptions& server = options->server;
  server.port = static_cast<uint16_t>(drafted.port);
  server.max_body_bytes = static_cast<size_t>(drafted.max_body_bytes);
  server.max_batch_file_bytes = static_cast<size_t>(drafted.max_batch_file_bytes);
  server.ping_interval =
      drafted.ping_seconds > 0 ? std::chrono::seconds(drafted.ping_seconds) : ServerOptions::kNever;
  if (std::string wrong = read_cors(drafted, &server.cors); !wrong.empty()) return wrong;
  auto keys = read_keys(std::move(drafted.api_keys), {"STOKER_API_KEY", "VLLM_API_KEY"}, "key");
  if (!keys) return "--api-key: " + keys.error().message;
  server.api_keys = *std::move(keys);
  auto admins = read_keys(std::move(drafted.admin_api_keys), {"STOKER_ADMIN_API_KEY"}, "admin");
  if (!admins) return "--admin-api-key: " + admins.error().message;
  server.admin_api_keys = *std::move(admins);
  return {};
}

void add_all_serve_options(OptionParser& parser, ServeOptions* options, Drafted* drafted) {
  add_process_options(parser, options, drafted);
  add_client_options(parser, &options->server, &options->engine, drafted);
  add_cors_options(parser, &options->server, drafted);
  add_batch_options(parser, &options->server, drafted);
  add_engine_options(parser, &options->engine);
  add_vllm_options(parser, &options->warnings);
}

std::optional<int> read_all(OptionParser& parser, const Arguments& arguments, Drafted* drafted,
                            ServeOptions* options) {
  const auto all = with_config_file(arguments);
  if (!all) return parser.refuse(all.error().message);
  if (const auto code = parser.parse(*all)) return code;
  if (const std::string wrong = number_problem(*options, *drafted); !wrong.empty())
    return parser.refuse(wrong);
  if (const std::string wrong = take(std::move(*drafted), options); !wrong.empty())
    return parser.refuse(wrong);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> options_for_a_restart(const ServeOptions& before,
                                               const ServeOptions& now) {
  const EngineOptions& a = before.engine;
  const EngineOptions& b = now.engine;
  const SpeculationOptions& drafts = a.speculation;
  const struct {
    const char* name;
    bool is_same;
  } rows[] = {
      {"MODEL", before.model == now.model},
      {"--max-queue", a.max_queue == b.max_queue},
      {"--max-model-len", a.max_model_len == b.max_model_len},
      {"--max-num-seqs", a.max_num_seqs == b.max_num_seqs},
      {"--max-num-batched-tokens", a.max_num_batched_tokens == b.max_num_batched_tokens},
      {"--kv-budget", a.kv_budget_bytes == b.kv_budget_bytes},
      {"--image-budget", a.image_budget_bytes == b.image_budget_bytes},
      {"--no-enable-prefix-caching", a.prefix_caching == b.prefix_caching},
      {"--bounded-replay", a.bounded_replay == b.bounded_replay},
      {"--prefix-cache-retention-interval", a.image_interval == b.image_interval},
      {"--scheduling-policy", a.use_priorities == b.use_priorities},
      {"--speculative-config",
       drafts.mode == b.speculation.mode &&
           drafts.num_speculative_tokens == b.speculation.num_speculative_tokens &&
           drafts.enable_adaptive_verification == b.speculation.enable_adaptive_verification},
      {"--threads", a.num_threads == b.num_threads},
      {"--no-pack", a.weights.pack == b.weights.pack},
      {"--verify", a.weights.verify == b.weights.verify},
      {"--no-tune", a.tune == b.tune}};
  std::vector<std::string> names;
  for (const auto& row : rows) {
    if (!row.is_same) names.emplace_back(row.name);
  }
  return names;
}

std::optional<int> read_up_options(const Arguments& arguments, UpOptions* options) {
  Drafted drafted;
  OptionParser parser(
      "up",
      "Brings an engine up from the best snapshot that fits this host, asks its canary, and then "
      "answers over HTTP as `stoker serve` does. Exit codes: 3 nothing fits, 4 damaged, 5 the "
      "canary differs, 6 not enough memory, 7 busy, 70 damaged while it answered.",
      kUpExamples);
  parser.positional("NAME", &options->serve.model,
                    "the name of a model in the store, a checkpoint directory, demo, or the "
                    "beginning of a snapshot's id");
  parser.flag("--or-cold", &options->or_cold,
              "Where no snapshot fits, start from the checkpoint, and make one");
  if (const char* const catalogue = std::getenv("STOKER_CATALOGUE")) options->catalogue = catalogue;
  parser.option("--catalogue", "SOURCE", &options->catalogue,
                "Where no snapshot fits, pull one from this folder or http(s)://, as stoker "
                "snapshot pull does [$STOKER_CATALOGUE]");
  parser.option("--require-signature", "PUB.pem", &options->require_signature,
                "Only a snapshot signed by this Ed25519 public key; every byte is held against the "
                "SHA-256 of its manifest");
  parser.flag("--json", &options->json,
              "Tell the time of each stage on standard output, as one line of JSON");
  parser.flag("--detach", &options->detach,
              "Return once it is ready, and go on in the background; stoker ps lists it, stoker "
              "down ends it");
  parser.option(
      "--log", "FILE", &options->log,
      "Where it then writes, appended [a file of its process in the folder of stoker ps]");
  options->serve.engine.weights.verify = Verify::kFull;
  add_all_serve_options(parser, &options->serve, &drafted);
  return read_all(parser, arguments, &drafted, &options->serve);
}

std::optional<int> read_serve_options(const Arguments& arguments, ServeOptions* options) {
  Drafted drafted;
  OptionParser parser(
      "serve",
      "Answers over HTTP, with OpenAI's interfaces: /v1/completions, /v1/chat/completions, "
      "/v1/responses, /v1/models, /v1/batches, with Anthropic's: /v1/messages, and "
      "/inference/v1/generate, /tokenize, /health, /metrics. Options of vLLM's serve that mean "
      "nothing here are taken "
      "too, or refused with the reason: docs/server.md has them.",
      kServeExamples);
  parser.positional("MODEL", &options->model, kModelHelp);
  add_all_serve_options(parser, options, &drafted);
  return read_all(parser, arguments, &drafted, options);
}

}  // namespace stoker
