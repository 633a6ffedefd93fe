// The end of a trace: written when the run is done, or when it has failed.
#include "cli/trace_file.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {

TraceFile::TraceFile(const std::optional<std::string>& path, std::span<const std::filesystem::path> models) {
  if (path) file_ = std::make_unique<OutputFile>("--trace", *path, models);
}

TraceFile::~TraceFile() {
  if (trace_.lanes().empty() || file_ == nullptr || file_->waits_for_reader()) return;
  try {
    close();
  } catch (const std::exception& error) {
    spdlog::warn("{}", one_line(error.what()));
  }
}

void TraceFile::close() {
  const auto file = std::exchange(file_, nullptr);  // once, whatever happens
  if (file == nullptr) return;
  trace_.write_json([&file](std::string_view piece) { file->write(piece.data(), piece.size()); });
  file->close();
  if (trace_.dropped() > 0) {
    spdlog::warn("--trace: {} zones were dropped, as a rank keeps {}; the file says from where on", trace_.dropped(),
                 Trace::kZonesPerLane);
  }
}

}  // namespace lockstep
