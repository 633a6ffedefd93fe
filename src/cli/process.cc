// Descriptors, signals and stacks.
#include "cli/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <initializer_list>

#include "cli/mapping_fault.h"

namespace lockstep {
namespace {

// Bytes. Where memory is limited (ulimit -d, -v), the stack of every thread counts whole, whatever is used of it; the
// usual 8 MiB would be most of what a small model needs.
constexpr size_t kMostStack = size_t{1} << 20;

void limit_stacks() {
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  size_t size = 0;
  ::pthread_attr_getstacksize(&attributes, &size);
  ::pthread_attr_setstacksize(&attributes, std::min(size, kMostStack));
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

}  // namespace

void prepare_process() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() gives the lowest free number, which is fd. The direction is the wrong one on purpose.
    if (::fcntl(fd, F_GETFD) == -1) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  report_mapping_faults();
  limit_stacks();
}

}  // namespace lockstep
