// The names of threads that debuggers, profilers and `top -H` show.
#pragma once

#include <pthread.h>

namespace stoker {

/// Names the calling thread; threads that it starts begin with that name. At most 15 characters.
inline void name_this_thread(const char* name) {
  // Fails only for a longer name, which does no harm.
  static_cast<void>(pthread_setname_np(pthread_self(), name));
}

}  // namespace stoker
