// The handler of SIGBUS. It calls only what POSIX lists as safe in a signal handler, and finds the file by asking the
// kernel, so that nobody has to keep a list of what is mapped.
#include "cli/mapping_fault.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <string_view>

#include "base/descriptor.h"

namespace lockstep {
namespace {

constexpr int kFailure = 1;
constexpr size_t kMostLine = 8192;  // a path has at most 4,096 bytes

// A fixed text that is cut where it is full.
class Line {
 public:
  void add(char c) {
    if (size_ < text_.size()) text_[size_++] = c;
  }
  void add(std::string_view text) {
    for (const char c : text) add(c);
  }
  void clear() { size_ = 0; }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, kMostLine> text_;
  size_t size_ = 0;
};

// The path in a line of /proc/self/maps (begin-end mode offset device inode path) when the address lies in it, else
// empty, as it is for memory that is no file.
std::string_view file_at(uintptr_t address, std::string_view line) {
  uintptr_t begin = 0, end = 0;
  const char* const last = line.data() + line.size();
  const auto dash = std::from_chars(line.data(), last, begin, 16);
  if (dash.ptr == last) return {};
  std::from_chars(dash.ptr + 1, last, end, 16);
  if (address < begin || address >= end) return {};
  const size_t path = line.find('/');
  return path == std::string_view::npos ? std::string_view() : line.substr(path);
}

// Ends the process when the address is of a mapped file.
void end_if_mapped(uintptr_t address) {
  const Descriptor maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  Line line;
  std::array<char, 1024> piece;
  for (ssize_t count; (count = ::read(maps.get(), piece.data(), piece.size())) > 0;) {
    for (const char c : std::string_view(piece.data(), static_cast<size_t>(count))) {
      if (c != '\n') {
        line.add(c);
        continue;
      }
      if (const auto path = file_at(address, line.text()); !path.empty()) {
        Line message;
        message.add("lockstep: ");
        for (const char p : path) message.add(static_cast<unsigned char>(p) < ' ' || p == '\x7f' ? '?' : p);
        message.add(": it was cut short, or could not be read, while it was looked at\n");
        [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, message.text().data(), message.text().size());
        ::_exit(kFailure);
      }
      line.clear();
    }
  }
}

void on_sigbus(int, siginfo_t* info, void*) {
  if (info->si_code == BUS_ADRERR) end_if_mapped(reinterpret_cast<uintptr_t>(info->si_addr));
  std::signal(SIGBUS, SIG_DFL);
  ::raise(SIGBUS);  // pending until the handler returns
}

}  // namespace

void report_mapping_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace lockstep
