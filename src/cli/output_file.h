// A file that a flag names and that comes to be as a whole.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Bytes go to a file without a name, so that write() never waits for whoever reads the target, what stands at the
// target stays until all is there, and a process that ends before close() leaves nothing behind. close() gives that
// file the target's name; where it cannot (pipes, devices, mount points, folders that take no files) it copies the
// bytes.
class OutputFile {
 public:
  // `flag` ("--out") is for messages. Throws Error(Io) when nothing can be written at `path`, Error(Usage) when it is a
  // file of the model or where standard output goes.
  OutputFile(std::string_view flag, const std::string& path, std::span<const std::filesystem::path> models);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // close() waits for whoever reads the target: it is a pipe or a device.
  bool waits_for_reader() const { return replace_.empty(); }

  // Errors are kept for close().
  void write(const void* bytes, size_t size);
  // Throws Error(Io) when anything could not be written.
  void close();

 private:
  void open_beside(bool exists);
  bool move_to_target();
  void copy_to_target();
  [[noreturn]] void fail_to_open(int error) const;
  [[noreturn]] void fail_unfinished(int error) const;

  std::string name_;               // flag and path as given, for messages
  std::filesystem::path target_;   // as given
  std::filesystem::path replace_;  // the file that takes its place, links followed; empty: bytes are copied into it
  std::unique_ptr<FILE, int (*)(FILE*)> file_{nullptr, std::fclose};
  int error_ = 0;  // errno of the first write that failed
};

}  // namespace lockstep
