// Runs the program in a child of the test, as a death test does, and holds it to the memory that a refusal may take.
#pragma once

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace lockstep {

// Bytes. The address sanitizer adds its own: redzones around allocations, their shadow, and code that is twice as
// large.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMostGrowth = int64_t{72} << 20;
#else
constexpr int64_t kMostGrowth = int64_t{64} << 20;
#endif

inline int64_t peak_bytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// No more private memory than now and kMostGrowth, whether it is touched or not.
inline void limit_memory() {
  int64_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  for (int field = 0; field < 6; ++field) statm >> pages;  // the sixth: data and stack
  const auto limit = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + kMostGrowth);
  const rlimit limits = {limit, limit};
  if (pages == 0 || ::setrlimit(RLIMIT_DATA, &limits) != 0) std::abort();
}

// For EXPECT_EXIT: ends with the program's status, or with 99 when its peak has grown by more than it may, file pages
// included.
[[noreturn]] inline void run_program(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"lockstep"};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  const auto before = peak_bytes();
  limit_memory();
  const int status = run_command_line(static_cast<int>(argv.size()), argv.data());
  const auto grown = peak_bytes() - before;
  if (grown > kMostGrowth) {
    std::fprintf(stderr, "grown by %lld bytes\n", static_cast<long long>(grown));
    std::exit(99);
  }
  std::exit(status);
}

// One line of an error that says `what`.
inline auto one_line_saying(const std::string& what) {
  using namespace ::testing;
  return AllOf(StartsWith("lockstep: "), HasSubstr(what), EndsWith("\n"),
               ResultOf([](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }, Eq(1)),
               SizeIs(Lt(1000)));
}

}  // namespace lockstep
