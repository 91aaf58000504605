// What the verbs of stoker snapshot share, and those that are in a file of their own.
#pragma once

#include <string>

#include "loading.h"
#include "options.h"
#include "stoker/snapshot.h"

namespace stoker {

/// Prints an error; returns the exit code that a command about snapshots ends with.
int report_snapshot(const Error& error);

/// Id, name, size and time of a snapshot, in one line without its end.
std::string created_text(const SnapshotInfo& info);

/// The options that all verbs share, and progress on standard error.
class VerbOptions {
 public:
  VerbOptions();

  void declare(OptionParser& parser);
  void declare_signature(OptionParser& parser);

  SnapshotOptions how;

 private:
  LoadingProgress progress_;
};

int create_verb(const Arguments& arguments);
int diff_verb(const Arguments& arguments);
int export_verb(const Arguments& arguments);
int import_verb(const Arguments& arguments);
int push_verb(const Arguments& arguments);
int pull_verb(const Arguments& arguments);

}  // namespace stoker
