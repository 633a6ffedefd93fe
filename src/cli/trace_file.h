// --trace FILE: the trace of a run, and the file it is written to at the end.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/trace.h"
#include "cli/output_file.h"

namespace lockstep {

// To be declared before the engine, which must be gone when the file is written.
class TraceFile {
 public:
  // Without a path nothing is traced. Throws Error(Io | Usage) when the file cannot be written.
  TraceFile(const std::optional<std::string>& path, std::span<const std::filesystem::path> models);
  // A run that ends early leaves what was recorded till then, unless no rank had begun or the target is a pipe, whose
  // reader it must not wait for.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  Trace* trace() { return file_ != nullptr ? &trace_ : nullptr; }
  // Throws Error(Io) when the file could not be written.
  void close();

 private:
  std::unique_ptr<OutputFile> file_;  // nullptr: not traced, or no longer to be written
  Trace trace_;
};

}  // namespace lockstep
