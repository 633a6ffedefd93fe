// A mapped file that shrinks, or whose device fails, while it is looked at: the process ends with a line that names it.
#pragma once

namespace lockstep {

// Installs the handler of SIGBUS: where the fault lies in the mapping of a file, one line on standard error and exit
// status 1; any other SIGBUS ends the process as before.
void report_mapping_faults();

}  // namespace lockstep
