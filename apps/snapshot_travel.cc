// The verbs of stoker snapshot about snapshots that travel: diff, export, import, push, pull.
#include "stoker/snapshot_travel.h"

#include "common.h"
#include "json_text.h"
#include "snapshot_verbs.h"
#include "texts.h"

namespace stoker {
namespace {

std::string fields_text(const SnapshotDiff& diff) {
  std::string text;
  for (const SnapshotFieldDiff& field : diff.fields) {
    text += field.name + "\n";
    text += "  A " + field.in_a + "\n  B " + field.in_b + "\n";
  }
  return text;
}

std::string part_text(const SnapshotPartDiff& part) {
  const auto line = [&part](const char* where, const SnapshotPart& in) {
    return std::string(where) + part.name + "  " + size_text(in.num_bytes) + "\n";
  };
  if (part.is_shared) return line("both    ", part.in_a);
  std::string text;
  if (!part.in_a.object.empty()) text += line("only A  ", part.in_a);
  if (!part.in_b.object.empty()) text += line("only B  ", part.in_b);
  return text;
}

std::string diff_text(const SnapshotDiff& diff) {
  std::string text = "A " + diff.id_a + "\nB " + diff.id_b + "\n\n" + fields_text(diff);
  if (!diff.fields.empty()) text += "\n";
  for (const SnapshotPartDiff& part : diff.parts) text += part_text(part);
  return text + "\nshared " + size_text(diff.num_bytes_shared) + ", only A " +
         size_text(diff.num_bytes_only_a) + ", only B " + size_text(diff.num_bytes_only_b) + "\n";
}

std::string side_json(const SnapshotPart& part) {
  if (part.object.empty()) return "null";
  return JsonObject()
      .add("object", json_string(part.object))
      .add("bytes", std::to_string(part.num_bytes))
      .text();
}

std::string diff_json(const SnapshotDiff& diff) {
  std::vector<std::string> fields, parts;
  for (const SnapshotFieldDiff& field : diff.fields) {
    fields.push_back(JsonObject()
                         .add("name", json_string(field.name))
                         .add("a", json_string(field.in_a))
                         .add("b", json_string(field.in_b))
                         .text());
  }
  for (const SnapshotPartDiff& part : diff.parts) {
    parts.push_back(JsonObject()
                        .add("name", json_string(part.name))
                        .add("shared", part.is_shared ? "true" : "false")
                        .add("a", side_json(part.in_a))
                        .add("b", side_json(part.in_b))
                        .text());
  }
  return JsonObject()
      .add("a", json_string(diff.id_a))
      .add("b", json_string(diff.id_b))
      .add("fields", json_array(fields))
      .add("sections", json_array(parts))
      .add("bytes_shared", std::to_string(diff.num_bytes_shared))
      .add("bytes_only_a", std::to_string(diff.num_bytes_only_a))
      .add("bytes_only_b", std::to_string(diff.num_bytes_only_b))
      .text();
}

}  // namespace

int diff_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string a, b;
  bool json = false;
  OptionParser parser("snapshot diff",
                      "What differs between two snapshots: lines of their manifests, and which "
                      "objects both have.",
                      "  stoker snapshot diff 3f9a 77c0\n");
  parser.positional("A", &a, "the beginning of an id");
  parser.positional("B", &b, "that of another");
  parser.flag("--json", &json, "As one line of JSON");
  options.declare(parser);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto diff = diff_snapshots(a, b, options.how);
  if (!diff) return report_snapshot(diff.error());
  return print_result(json ? diff_json(*diff) + "\n" : diff_text(*diff));
}

int export_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string id, file;
  OptionParser parser("snapshot export",
                      "Writes a snapshot with all its objects as one stream, for `stoker snapshot "
                      "import` elsewhere.",
                      "  stoker snapshot export 3f9a flash.snapshot\n"
                      "  stoker snapshot export 3f9a - | ssh other stoker snapshot import -\n");
  parser.positional("ID", &id, "the beginning of its id");
  parser.positional("FILE", &file, "where to; - is standard output");
  options.declare(parser);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto done = export_snapshot(id, file, options.how);
  if (!done) return report_snapshot(done.error());
  return file == "-" ? 0 : print_result(created_text(*done) + "\n");
}

int import_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string file;
  OptionParser parser("snapshot import",
                      "Puts into the store what `stoker snapshot export` wrote. Nothing is seen of "
                      "it before all of it was good; objects that are there stay as they are.",
                      "  stoker snapshot import flash.snapshot\n");
  parser.positional("FILE", &file, "where from; - is standard input");
  options.declare(parser);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto done = import_snapshot(file, options.how);
  if (!done) return report_snapshot(done.error());
  return print_result(created_text(*done) + "\n");
}

int push_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string id, target;
  OptionParser parser("snapshot push",
                      "Puts a snapshot into a catalogue: a folder, which any server of files can "
                      "hand out. Only objects that it lacks travel.",
                      "  stoker snapshot push 3f9a /mnt/shared/snapshots\n");
  parser.positional("ID", &id, "the beginning of its id");
  parser.positional("TARGET", &target, "a folder; made where nothing is");
  options.declare(parser);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto done = push_snapshot(id, target, options.how);
  if (!done) return report_snapshot(done.error());
  return print_result(created_text(*done) + "\n");
}

int pull_verb(const Arguments& arguments) {
  VerbOptions options;
  std::string name, source;
  OptionParser parser("snapshot pull",
                      "Brings a snapshot from a catalogue into the store. Only objects that it "
                      "lacks travel, each chunk is checked as it comes, and what was interrupted "
                      "goes on when it is called again.",
                      "  stoker snapshot pull flash https://example.org/snapshots\n"
                      "  stoker snapshot pull 3f9a /mnt/shared/snapshots\n");
  parser.positional("NAME", &name, "the name of a model, or the beginning of an id");
  parser.positional("SOURCE", &source, "a folder, http://... or https://...");
  options.declare(parser);
  options.declare_signature(parser);
  add_replay_option(parser, &options.how.engine.bounded_replay);
  if (const auto code = parser.parse(arguments)) return *code;
  const auto done = pull_snapshot(name, source, options.how);
  if (!done) return report_snapshot(done.error());
  return print_result(created_text(*done) + "\n");
}

}  // namespace stoker
