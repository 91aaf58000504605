// stoker snapshot VERB: makes, lists, checks and removes the snapshots of a store.
#include "stoker/snapshot.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "commands.h"
#include "common.h"
#include "json_text.h"
#include "snapshot_verbs.h"
#include "stoker/image_probe.h"
#include "texts.h"

namespace stoker {
int report_snapshot(const Error& error) {
  report(error);
  return snapshot_exit_code(error);
}

std::string created_text(const SnapshotInfo& info) {
  return info.id + "  " + info.model_name + "  " + size_text(info.num_bytes) + "  " + info.created;
}

VerbOptions::VerbOptions() {
  how.engine.log = log_warning;
  how.engine.progress = [this](const Progress& now) { progress_.update(now); };
}

void VerbOptions::declare(OptionParser& parser) {
  add_store_option(parser, &how.engine.weights.store);
  add_threads_option(parser, &how.engine.num_threads);
}

void VerbOptions::declare_signature(OptionParser& parser) {
  parser.option("--require-signature", "PUB.pem", &how.require_signature,
                "Only with a signature by this Ed25519 public key; then every byte is held against "
                "the SHA-256 of the manifest");
}

namespace {

/// Exit code where nothing fits, or images of processes cannot be tried.
constexpr int kNotHere = 3;

std::string list_line(const SnapshotCandidate& candidate, bool with_reason) {
  const bool fits = !candidate.passed_over;
  std::string line = std::string(fits ? "fits  " : "-     ") + created_text(candidate.info);
  if (fits && candidate.has_plans) line += "  plans of this machine";
  line += "\n";
  if (with_reason && !fits) line += "      " + candidate.passed_over->message + "\n";
  return line;
}

std::string candidate_json(const SnapshotCandidate& candidate) {
  const SnapshotInfo& info = candidate.info;
  std::vector<std::string> parts;
  for (const SnapshotPart& part : info.parts) {
    parts.push_back(JsonObject()
                        .add("name", json_string(part.name))
                        .add("object", json_string(part.object))
                        .add("bytes", std::to_string(part.num_bytes))
                        .text());
  }
  return JsonObject()
      .add("id", json_string(info.id))
      .add("model", json_string(info.model_name))
      .add("created", json_string(info.created))
      .add("tool", json_string(info.tool))
      .add("model_digest", json_string(info.model_digest))
      .add("numeric_mode", json_string(info.numeric_mode))
      .add("isa", json_string(info.host_isa))
      .add("cpu", json_string(info.host_cpu))
      .add("bytes", std::to_string(info.num_bytes))
      .add("signed", info.is_signed ? "true" : "false")
      .add("fits", candidate.passed_over ? "false" : "true")
      .add("passed_over", json_string(candidate.passed_over ? candidate.passed_over->message : ""))
      .add("plans", candidate.has_plans ? "true" : "false")
      .add("sections", json_array(parts))
      .text();
}

int list_verb(const Arguments& arguments) {
  VerbOptions options;
  std::optional<std::string> name;
  bool why = false, json = false;
  OptionParser parser("snapshot list",
                      "The snapshots of a store, the one that `stoker up` would take first.",
                      "  stoker snapshot list --why\n  stoker snapshot list --for demo\n");
  parser.option("--for", "NAME", &name, "Only those that `stoker up NAME` looks at");
  parser.flag("--why", &why, "Say why one does not fit here");
  parser.flag("--json", &json, "A line of JSON for each");
  options.declare_signature(parser);
  options.declare(parser);
  add_replay_option(parser, &options.how.engine.bounded_replay);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto found = list_snapshots(name.value_or(""), options.how);
  if (!found) return report_snapshot(found.error());
  std::string text;
  for (const SnapshotCandidate& candidate : *found)
    text += json ? candidate_json(candidate) + "\n" : list_line(candidate, why);
  if (found->empty()) std::fprintf(stderr, "stoker: no snapshots\n");
  return print_result(text);
}

int verify_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string id;
  OptionParser parser("snapshot verify", "Holds every byte of a snapshot against its digests.",
                      "  stoker snapshot verify 3f9a\n");
  parser.positional("ID", &id, "the beginning of its id");
  options.declare_signature(parser);
  options.declare(parser);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto verified = verify_snapshot(id, options.how);
  if (!verified) return report_snapshot(verified.error());
  return print_result("undamaged: " + created_text(*verified) + "\n");
}

int canary_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string id;
  OptionParser parser("snapshot canary",
                      "Brings a snapshot's engine up, alone and in a batch, with drafts and "
                      "without, and compares its answers with those that were kept.",
                      "  stoker snapshot canary 3f9a\n");
  parser.positional("ID", &id, "the beginning of its id, or a name as `stoker up` takes it");
  options.how.engine.weights.verify = Verify::kFull;
  options.declare_signature(parser);
  options.declare(parser);
  add_replay_option(parser, &options.how.engine.bounded_replay);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto up = bring_up(id, options.how);
  if (!up) return report_snapshot(up.error());
  return print_result("the same answers: " + created_text(up->snapshot) + "\n");
}

int pin_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string id;
  bool sealed = false;
  OptionParser parser("snapshot pin",
                      "Keeps the weights of a snapshot in memory and verified until it is ended "
                      "(SIGINT, SIGTERM): engines that come up meanwhile map them at the speed of "
                      "memory and need not verify them.",
                      "  stoker snapshot pin 3f9a\n  stoker snapshot pin 3f9a --sealed\n");
  parser.positional("ID", &id, "the beginning of its id");
  parser.flag("--sealed", &sealed,
              "As a copy in memory that nobody can change; needs the memory twice while it copies");
  options.declare(parser);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto pinned = pin_snapshot(id, sealed, options.how, [](const PinnedSnapshot& what) {
    std::fprintf(stderr, "stoker: pinned %s of snapshot %s\n", size_text(what.num_bytes).c_str(),
                 what.id.substr(0, 8).c_str());
    for (const std::string& note : what.notes) std::fprintf(stderr, "stoker: %s\n", note.c_str());
  });
  return pinned ? 0 : report_snapshot(pinned.error());
}

int remove_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string id;
  OptionParser parser("snapshot remove",
                      "Forgets a snapshot; `stoker snapshot gc` then takes what only it needed.",
                      "  stoker snapshot remove 3f9a\n");
  parser.positional("ID", &id, "the beginning of its id");
  options.declare(parser);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto removed = remove_snapshot(id, options.how);
  return removed ? 0 : report_snapshot(removed.error());
}

int gc_verb(const Arguments& arguments) {
  CollectSnapshots options;
  OptionParser parser("snapshot gc",
                      "Takes away what no kept snapshot and no running engine needs, also weights "
                      "that `stoker serve` packed. Kept conversations stay.",
                      "  stoker snapshot gc --keep 2\n  stoker snapshot gc --max-bytes 200G\n");
  parser.option("--keep", "N", &options.keep,
                "Snapshots of each model and class of instructions that stay, the newest [1]");
  parser.bytes("--max-bytes", &options.max_bytes,
               "Take nothing more once the store has at most this [0]");
  parser.flag("--dry-run", &options.dry_run, "Only say what would go");
  add_store_option(parser, &options.store);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto done = collect_snapshots(options);
  if (!done) return report_snapshot(done.error());
  std::string text;
  for (const std::string& id : done->snapshots) text += "snapshot " + id + "\n";
  for (const std::string& object : done->objects) text += "object " + object + "\n";
  for (const std::string& what : done->damaged) text += "damaged " + what + "\n";
  text += std::string(options.dry_run ? "would free " : "freed ") + size_text(done->num_bytes) +
          ", left " + size_text(done->num_bytes_left) + "\n";
  return print_result(text);
}

int probe_verb(const Arguments& arguments) {
  bool json = false;
  OptionParser parser("snapshot probe",
                      "Whether images of processes (CRIU) could be tried on this machine. Stoker "
                      "makes none itself; snapshots need nothing of it. Ends with 0 if they could, "
                      "with 3 if not.",
                      "  stoker snapshot probe\n");
  parser.flag("--json", &json, "A line of JSON for each thing that is needed");
  if (const auto code = parser.parse(arguments)) return *code;
  std::string text;
  bool is_met = true;
  for (const ImageNeed& need : probe_process_images()) {
    is_met = is_met && need.is_met;
    text += json ? JsonObject()
                           .add("need", json_string(need.name))
                           .add("expected", json_string(need.expected))
                           .add("found", json_string(need.found))
                           .add("met", need.is_met ? "true" : "false")
                           .text() +
                       "\n"
                 : std::string(need.is_met ? "ok   " : "-    ") + need.name + ": expected " +
                       need.expected + ", found " + need.found + "\n";
  }
  if (!json) {
    text += std::string("images of processes ") + (is_met ? "could" : "cannot") +
            " be tried here; snapshots need none of this\n";
  }
  const int code = print_result(text);
  return code != 0 || is_met ? code : kNotHere;
}

constexpr Command kVerbs[] = {
    {"create", "keep a warm engine", create_verb},
    {"list", "what there is, and what fits here", list_verb},
    {"verify", "hold every byte against its digests", verify_verb},
    {"canary", "bring one up and compare its answers", canary_verb},
    {"pin", "keep one's weights in memory", pin_verb},
    {"remove", "forget one", remove_verb},
    {"diff", "what differs between two", diff_verb},
    {"export", "write one as a stream", export_verb},
    {"import", "take such a stream into the store", import_verb},
    {"push", "put one into a catalogue", push_verb},
    {"pull", "bring one from a catalogue", pull_verb},
    {"gc", "take away what nothing needs", gc_verb},
    {"probe", "could images of processes be tried here", probe_verb},
};

}  // namespace

int snapshot_command(const Arguments& arguments) {
  return run_chosen({"verb of snapshot",
                     "Usage: stoker snapshot VERB [OPTIONS]\n\nWarm engines in a store, for "
                     "`stoker up`.\n\nVerbs:\n",
                     kVerbs, "\nstoker snapshot VERB --help tells more.\n"},
                    arguments);
}

}  // namespace stoker
