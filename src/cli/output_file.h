// A file that a flag names and that comes to be as a whole.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Bytes go to a temporary file, so that write() never waits for whoever reads the target, and what stands at the target
// stays until all is there: beside a file that close() renames to the target's name, or, for a pipe or device, without
// a name, copied by close(). A file that is not closed leaves nothing behind.
class OutputFile {
 public:
  // `flag` ("--out") is for messages. Throws Error(Io) when nothing can be written at `path`, Error(Usage) when it is a
  // file of the model or where standard output goes.
  OutputFile(std::string_view flag, const std::string& path, std::span<const std::filesystem::path> models);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // close() waits for whoever reads the target: it is a pipe or a device.
  bool waits_for_reader() const { return temporary_.empty(); }

  // Errors are kept for close().
  void write(const void* bytes, size_t size);
  // Throws Error(Io) when anything could not be written.
  void close();

 private:
  void copy_to_target();
  [[noreturn]] void fail_to_open(int error) const;
  [[noreturn]] void fail_unfinished(int error) const;

  std::string name_;                 // flag and path as given, for messages
  std::filesystem::path target_;     // links followed
  std::filesystem::path temporary_;  // empty: without a name
  std::unique_ptr<FILE, int (*)(FILE*)> file_{nullptr, std::fclose};
  int error_ = 0;  // errno of the first write that failed
};

}  // namespace lockstep
