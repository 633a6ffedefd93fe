// Which table runs: the best this processor and operating system support, or the one LOCKSTEP_FORCE_ISA names.
#include <fmt/ranges.h>
#include <hwy/targets.h>

#include <cstdlib>

#include "base/error.h"
#include "base/quoted.h"
#include "kernels/tables.h"

namespace lockstep {

std::vector<const Kernels*> supported_kernels() {
  const int64_t targets = hwy::SupportedTargets();
  std::vector<const Kernels*> tables;
  if ((targets & HWY_AVX3) != 0 && avx512_kernels() != nullptr) tables.push_back(avx512_kernels());
  if ((targets & HWY_AVX2) != 0 && avx2_kernels() != nullptr) tables.push_back(avx2_kernels());
  tables.push_back(&reference_kernels());
  return tables;
}

const Kernels& select_kernels() {
  const auto tables = supported_kernels();
  const char* forced = std::getenv("LOCKSTEP_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') return *tables.front();
  std::vector<std::string_view> names;
  for (const Kernels* table : tables) {
    if (table->isa == forced) return *table;
    names.push_back(table->isa);
  }
  const std::string_view name = forced;
  const bool known = name == "avx2" || name == "avx512" || name == "amx";
  fail(ErrorKind::Usage, "LOCKSTEP_FORCE_ISA: {} is {}; allowed here: {}. Unset it to take the best", in_quotes(name),
       known ? "not available on this machine or in this build" : "not a known instruction set",
       fmt::join(names, ", "));
}

}  // namespace lockstep
