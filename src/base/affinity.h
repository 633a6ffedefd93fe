// Where the calling thread may run, and what it is called in listings of threads (top -H, gdb).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lockstep {

// The processors (numbers of the operating system) that the calling thread may run on; ascending, at least one. Throws
// Error(Io) when the system does not say.
std::vector<int> allowed_processors();

// Lets the calling thread run on these processors only. Threads that it starts inherit them. Throws Error(Io) that
// names them when the system refuses.
void pin_this_thread(std::span<const int> processors);

// At most 15 bytes; the rest is cut.
void name_this_thread(const std::string& name);

// "0-3,8,10-11": in the given order, runs of ascending neighbours joined.
std::string format_processors(std::span<const int> processors);

}  // namespace lockstep
