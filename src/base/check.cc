#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace stoker {

void check_failed(const char* file, int line, const char* expression, const char* message) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed: %s\n", file, line, expression, message);
  std::abort();
}

}  // namespace stoker
