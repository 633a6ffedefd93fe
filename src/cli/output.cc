// Printing: JSON, text, tables, progress.
#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/error.h"

namespace lockstep {

void print_json(const Json& json) {
  print_text(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_text(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) {
    fail(ErrorKind::Io, "standard output could not be written to its end: {}", std::generic_category().message(errno));
  }
}

void print_note(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_table(std::span<const std::vector<std::string>> rows, size_t left) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

ProgressBar::ProgressBar(bool wanted, std::string_view label)
    : drawn_(wanted && isatty(STDERR_FILENO) == 1), label_(label) {}

ProgressBar::~ProgressBar() {
  if (drawn_) print_note("\r\x1b[K");  // back to the line's beginning, and clear it
}

void ProgressBar::show(int64_t done, int64_t total) {
  if (!drawn_) return;
  constexpr int kWidth = 30;
  const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const std::string filled(static_cast<size_t>(part * kWidth), '#');
  print_note(fmt::format("\r{} [{:<{}}] {:3.0f}% of {}", label_, filled, kWidth, part * 100, human_bytes(total)));
}

}  // namespace lockstep
