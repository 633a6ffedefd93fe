// Faults that test builds (LOCKSTEP_TESTING) take from the environment, so that tests can break a rank on purpose. In a
// release program from_environment() always returns no fault and no delay: the variables are not read.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

struct Fault {
  enum class Kind { Throw, Stall, Exit, Ulp };
  int rank = 0;
  int64_t step = 0;  // counted from 0 in each engine
  Kind kind = Kind::Throw;
};

struct FaultInjection {
  std::optional<Fault> fault;  // LOCKSTEP_TEST_FAULT=rank:step:throw|stall|exit|ulp
  int64_t comm_delay_us = 0;   // LOCKSTEP_TEST_COMM_DELAY_US=N: added by every rank at every site

  static bool enabled();  // whether this program is a test build

  // Throws Error(Usage) that lists the allowed values when a variable cannot be understood.
  static FaultInjection from_environment();
};

}  // namespace lockstep
