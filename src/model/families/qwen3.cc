// Qwen3 dense: norms of each query and key head before the rotation; windows as Qwen2 has them.
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"qwen3"};
constexpr std::array<std::string_view, 1> kModelTypes{"qwen3"};
constexpr auto kRules = std::to_array<WeightRule>({
    {AttnQNorm},
    {AttnKNorm},
});

constexpr Family kFamily = {"qwen3", kGguf, kModelTypes, kRules, &read_dense_with_windows};

}  // namespace

const Family& qwen3_family() {
  return kFamily;
}

}  // namespace lockstep
