// Anonymous mappings.
#include "base/aligned_buffer.h"

#include <sys/mman.h>

namespace lockstep {

PageBlock map_pages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {memory, Unmap{bytes}};
}

void Unmap::operator()(void* memory) const noexcept {
  munmap(memory, bytes);
}

}  // namespace lockstep
