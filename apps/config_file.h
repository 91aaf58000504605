// Options of a command from a YAML file, as if they stood on its command line.
#pragma once

#include "options.h"
#include "stoker/result.h"

namespace stoker {

/// The arguments without `--config FILE`, and with the options of that file, if it is there. Each
/// key is an option without its dashes, `_` for `-` as one likes; a list gives the option several
/// times, true a flag, false and null nothing, a mapping its JSON text; `model` is the positional
/// argument. What stands on the command line too is left out. Errors: kNotFound, kIo,
/// kInvalidArgument with the place in the file.
Result<Arguments> with_config_file(Arguments arguments);

}  // namespace stoker
