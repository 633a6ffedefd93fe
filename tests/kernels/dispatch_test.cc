// Which table is chosen, and what LOCKSTEP_FORCE_ISA may say.
#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "kernels/kernels_fixture.h"

namespace lockstep {
namespace {

// LOCKSTEP_FORCE_ISA with a value, or unset, until the end of the scope.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* value) {
    if (const char* old = std::getenv(kName)) old_ = old;
    set(value);
  }
  ~ForcedIsa() { set(old_ ? old_->c_str() : nullptr); }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;

 private:
  static constexpr const char* kName = "LOCKSTEP_FORCE_ISA";
  static void set(const char* value) { value != nullptr ? setenv(kName, value, 1) : unsetenv(kName); }
  std::optional<std::string> old_;
};

TEST(Dispatch, ReferenceIsAlwaysThereAndLast) {
  ASSERT_FALSE(supported_kernels().empty());
  EXPECT_EQ(supported_kernels().back()->isa, "reference");
}

TEST(Dispatch, TablesFollowTheProcessor) {
  std::vector<std::string_view> expected = {"reference"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) expected.insert(expected.begin(), "avx2");
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    expected.insert(expected.begin(), "avx512");
  }
  std::vector<std::string_view> found;
  for (const Kernels* table : supported_kernels()) found.push_back(table->isa);
  EXPECT_EQ(found, expected);
}

TEST(Dispatch, TheBestRunsUnlessForced) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ForcedIsa forced(unset);
    EXPECT_EQ(&select_kernels(), supported_kernels().front());
  }
}

TEST(Dispatch, TheForcedOneRuns) {
  for (const Kernels* table : supported_kernels()) {
    const ForcedIsa forced(std::string(table->isa).c_str());
    EXPECT_EQ(&select_kernels(), table);
  }
}

TEST(Dispatch, OthersAreRefusedWithTheListOfWhatRuns) {
  for (const char* name : {"sse9", "amx", "AVX2", " "}) {
    const ForcedIsa forced(name);
    try {
      select_kernels();
      ADD_FAILURE() << "'" << name << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string("LOCKSTEP_FORCE_ISA: '") + name + "'"));
      for (const Kernels* table : supported_kernels()) {
        EXPECT_THAT(error.what(), testing::HasSubstr(std::string(table->isa)));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
