// An object in sealed memory: a copy behind a descriptor (memfd) that nobody can change any more,
// so that who gets the descriptor need not verify it. How it is handed out: handover.h.
#pragma once

#include <cstdint>

#include "base/descriptor.h"
#include "snapshot/attach.h"
#include "snapshot/object.h"

namespace stoker::snapshot {

/// A sealed copy, and the object in it. Movable.
struct Sealed {
  Descriptor memory;
  Attached attached;
};

/// Copies the file into memory, in large pages where the system has some, verifies each chunk of
/// the copy, and seals it. Errors: kCorruptData as attach(); kResourceExhausted, with both numbers
/// where memory lacks; kIo.
Result<Sealed> seal_object(ObjectFile file, int num_threads, const Progress& progress = {});

/// The object in memory that somebody sent, which must be sealed against every change and have the
/// right size. Errors: kCorruptData; those of ObjectMapping::sealed_memory.
Result<Object> object_in(const Descriptor& memory, ObjectFile file);

}  // namespace stoker::snapshot
