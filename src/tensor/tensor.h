// The door of tensor/: what a number in memory is.
// dtype.h    the table of element and block formats, with the ids GGUF gives them
// reduction_tree.h    the fixed order in which a divided sum is joined, whatever the number of ranks
// Nothing here knows files, ranks or threads.
#pragma once

#include "tensor/dtype.h"           // IWYU pragma: export
#include "tensor/range.h"           // IWYU pragma: export
#include "tensor/reduction_tree.h"  // IWYU pragma: export
