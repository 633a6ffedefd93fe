// The test build's fault injection: LOCKSTEP_TEST_* of the environment, understood wholly or refused.
#include "base/fault_injection.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<std::string_view, Fault::Kind>, 4> kKinds{{
    {"throw", Fault::Kind::Throw},
    {"stall", Fault::Kind::Stall},
    {"exit", Fault::Kind::Exit},
    {"ulp", Fault::Kind::Ulp},
}};

constexpr int64_t kMostDelayUs = 60'000'000;  // a minute at every site

// The whole text as a number that is not negative, or nothing.
template <class Integer>
std::optional<Integer> parse_count(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<Fault> parse_fault(std::string_view text) {
  const size_t first = text.find(':');
  const size_t second = text.find(':', first + 1);
  if (first == text.npos || second == text.npos) return std::nullopt;
  const auto rank = parse_count<int>(text.substr(0, first));
  const auto step = parse_count<int64_t>(text.substr(first + 1, second - first - 1));
  if (!rank || !step) return std::nullopt;
  for (const auto& [name, kind] : kKinds) {
    if (text.substr(second + 1) == name) return Fault{.rank = *rank, .step = *step, .kind = kind};
  }
  return std::nullopt;
}

}  // namespace

bool FaultInjection::enabled() {
  return true;
}

FaultInjection FaultInjection::from_environment() {
  FaultInjection faults;
  if (const char* text = std::getenv("LOCKSTEP_TEST_FAULT")) {
    faults.fault = parse_fault(text);
    if (!faults.fault) {
      fail(ErrorKind::Usage,
           "LOCKSTEP_TEST_FAULT is {}; it must be RANK:STEP:KIND, RANK and STEP counted from 0, KIND one of throw, "
           "stall, exit, ulp",
           in_quotes(text));
    }
  }
  if (const char* text = std::getenv("LOCKSTEP_TEST_COMM_DELAY_US")) {
    const auto delay = parse_count<int64_t>(text);
    if (!delay || *delay > kMostDelayUs) {
      fail(ErrorKind::Usage, "LOCKSTEP_TEST_COMM_DELAY_US is {}; it must be a number of microseconds, from 0 to {}",
           in_quotes(text), kMostDelayUs);
    }
    faults.comm_delay_us = *delay;
  }
  return faults;
}

}  // namespace lockstep
