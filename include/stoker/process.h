// For programs built on the library: what concerns the whole process.
#pragma once

namespace stoker {

/// From now on a checkpoint, or a file of the store, that somebody shortens while it is mapped ends
/// the process with one line on standard error and exit code 3, instead of a SIGBUS without a word.
/// Process-wide: installs a signal handler.
void install_mapping_guard();

}  // namespace stoker
