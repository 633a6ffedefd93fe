// A checkpoint in one GGUF file, or in the files of a split: name-00001-of-00003.gguf and its neighbours.
#pragma once

#include <memory>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"

namespace lockstep {

// Takes over the (first) file; the others of a split are looked for beside it. Metadata is that of the first file.
std::unique_ptr<Checkpoint> open_gguf(MappedFile file);

}  // namespace lockstep
