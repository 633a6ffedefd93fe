// The release program's fault injection: none.
#include "base/fault_injection.h"

namespace lockstep {

bool FaultInjection::enabled() {
  return false;
}

FaultInjection FaultInjection::from_environment() {
  return {};
}

}  // namespace lockstep
