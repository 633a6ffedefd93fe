// The system calls on affinity and names.
#include "base/affinity.h"

#include <pthread.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "base/error.h"

namespace lockstep {
namespace {

// Linux numbers at most 8,192 processors; one cpu_set_t holds 1,024.
using ProcessorSet = std::array<cpu_set_t, 8>;
constexpr int kMostProcessors = 8 * CPU_SETSIZE;

}  // namespace

std::vector<int> allowed_processors() {
  ProcessorSet set{};
  if (sched_getaffinity(0, sizeof(set), set.data()) != 0) {
    fail(ErrorKind::Io, "the system does not say which processors this process may use: {}",
         std::generic_category().message(errno));
  }
  std::vector<int> processors;
  for (int i = 0; i < kMostProcessors; ++i) {
    if (CPU_ISSET_S(i, sizeof(set), set.data())) processors.push_back(i);
  }
  return processors;
}

void pin_this_thread(std::span<const int> processors) {
  ProcessorSet set{};
  for (const int processor : processors) CPU_SET_S(processor, sizeof(set), set.data());
  if (sched_setaffinity(0, sizeof(set), set.data()) == 0) return;
  fail(ErrorKind::Io, "a thread cannot be pinned to processors {}: {}; --no-pin leaves the choice to the system",
       format_processors(processors), std::generic_category().message(errno));
}

void name_this_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

std::string format_processors(std::span<const int> processors) {
  std::string text;
  for (size_t begin = 0; begin < processors.size();) {
    size_t end = begin + 1;
    while (end < processors.size() && processors[end] == processors[end - 1] + 1) ++end;
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", processors[begin]);
    if (end - begin > 1) fmt::format_to(std::back_inserter(text), "-{}", processors[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace lockstep
