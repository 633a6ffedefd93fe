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

namespace lockstep {

// What the headers of one checkpoint may cost: the memory of everything kept from them and the file pages touched to
// read them. It bounds what a hostile file can make a process hold. A vocabulary of 262,144 tokens and 514,906 merges,
// the largest in wide use, takes 35 MB of it.
class HeaderBudget {
 public:
  static constexpr uint64_t kBytes = uint64_t{48} << 20;

  // Call before allocating. Throws Error(DoesNotFit) that names the file.
  void charge(const std::string& file, uint64_t bytes);

 private:
  uint64_t left_ = kBytes;
};

struct GgufFile {
  uint32_t version = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // names may repeat: whoever joins the files of a split checks that
};

// Strings and tensors of the result point into `bytes`; `file` is for messages. Throws Error(Malformed | Unsupported |
// DoesNotFit).
GgufFile parse_gguf(std::span<const std::byte> bytes, const std::string& file, HeaderBudget& budget);

}  // namespace lockstep
