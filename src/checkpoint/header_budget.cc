// Charging a header's memory.
#include "checkpoint/header_budget.h"

#include "base/error.h"

namespace lockstep {

void HeaderBudget::charge(const std::string& file, uint64_t bytes) {
  if (bytes > left_) {
    fail(ErrorKind::DoesNotFit, "{}: its metadata and tensor table need more than the {} bytes allowed", file, kBytes);
  }
  left_ -= bytes;
}

}  // namespace lockstep
