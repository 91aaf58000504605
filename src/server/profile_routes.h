// /start_profile and /stop_profile: what the engine's steps took, as a file for time lines.
#pragma once

#include "server/plain_routes.h"

namespace stoker {

/// From now on steps are remembered.
PlainAnswer start_profile(ServerContext& context);

/// Tells the file in which they are going to be, which the storage's thread writes: it is there
/// once it is whole.
PlainAnswer stop_profile(ServerContext& context);

}  // namespace stoker
