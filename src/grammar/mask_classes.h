// Which states of an automaton no token can tell apart. They share a mask: in a string of up to a
// thousand characters, the states far from its end are one class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "grammar/automaton.h"

namespace stoker::grammar {

/// The class of each state: 0, 1, ... in the order of the first state of each. States of one class
/// allow the same strings of up to `max_bytes` bytes, and their rules can end at the same places
/// in these.
std::vector<uint32_t> mask_classes(const Automaton& automaton, size_t max_bytes);

}  // namespace stoker::grammar
