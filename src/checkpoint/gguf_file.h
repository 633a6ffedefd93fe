// One GGUF file, parsed and checked. GGUF (ggml, docs/gguf.md), all numbers little-endian:
//
//   header      "GGUF", u32 version, u64 tensor count, u64 key count
//   metadata    per key: string key, u32 type, value
//   tensors     per tensor: string name, u32 dimensions, u64 each (innermost first), u32 type, u64 offset
//   padding     to general.alignment
//   data        the tensors, each at its offset from here, aligned
//
// A string is a u64 length and its bytes. An array is a u32 element type, a u64 count and its elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/header_budget.h"

namespace lockstep {

struct GgufFile {
  uint32_t version = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // names may repeat: whoever joins the files of a split checks that
};

// Strings and tensors of the result point into `bytes`; `file` is for messages. Throws Error(Malformed | Unsupported |
// DoesNotFit).
GgufFile parse_gguf(std::span<const std::byte> bytes, const std::string& file, HeaderBudget& budget);

}  // namespace lockstep
