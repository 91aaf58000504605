// The version of the library, as its build states it.
#pragma once

namespace stoker {

/// "major.minor.patch". A static string; safe from any thread.
const char* version();

}  // namespace stoker
