// What commands print, and where: results on standard output, progress and figures on standard error.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Keys stay in the order in which they are set.
using Json = nlohmann::ordered_json;

// One line. Bytes that are no UTF-8 become U+FFFD.
void print_json(const Json& json);

// Text for standard output, delivered at once. Throws Error(Io) when it cannot be written.
void print_text(std::string_view text);
// For standard error: figures and progress. Failures to write are ignored.
void print_note(std::string_view text);

// "98.2 MB": powers of 1000.
std::string human_bytes(int64_t bytes);

// Columns as wide as their widest cell; numbers stand better on the right, so all but the first `left` columns do.
std::string format_table(std::span<const std::vector<std::string>> rows, size_t left);

// A bar on standard error that redraws itself and is gone when destroyed. Draws only when `wanted` and standard error
// is a terminal.
class ProgressBar {
 public:
  ProgressBar(bool wanted, std::string_view label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void show(int64_t done, int64_t total);

 private:
  const bool drawn_;
  const std::string label_;
};

}  // namespace lockstep
