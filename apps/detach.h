// A server that goes on without the terminal that started it.
#pragma once

#include <functional>
#include <string>

#include "stoker/result.h"

namespace stoker {

/// Runs `body` in a new process with a session of its own, and waits until that calls `ready`, or
/// ends. Before `ready` it writes where this process does; behind it to the file `log`, appended.
/// `log` empty: a file in running_folder() that has the process's number. Returns 0 once it is
/// ready, else its exit code. Call it before there are threads.
int run_detached(const std::string& log,
                 const std::function<int(const std::function<void()>& ready)>& body);

}  // namespace stoker
