// What a process inherits from its caller and cannot rely on.
#pragma once

namespace lockstep {

// Once, before anything is opened or printed.
//
// Standard descriptors that the caller closed are opened, so that no file gets their numbers, and with it what is
// printed; reading or writing them fails as if they were closed. Writing to a pipe that nobody reads, or beyond the
// limit of a file's size, fails instead of ending the process: who writes says what could not be written. Faults in
// mapped files are reported (mapping_fault.h), and threads started from now on have a stack of 1 MiB at most.
void prepare_process();

}  // namespace lockstep
