// For programs built on the library: what concerns the whole process.
#pragma once

namespace stoker {

/// The exit code of a process whose weights turn out damaged, or cannot be read any more, while it
/// uses them.
constexpr int kDamagedExitCode = 70;

/// From now on a checkpoint, or a file of the store, that somebody shortens while it is mapped, or
/// that storage loses, ends the process with kDamagedExitCode and one line on standard error, which
/// names the file and the offset in it, instead of a SIGBUS without a word. Process-wide: installs
/// a signal handler.
void install_mapping_guard();

}  // namespace stoker
