// Qwen2 and Qwen2.5: Llama with biases on q, k and v, and windows in the last layers where the file wants them.
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"qwen2"};
constexpr std::array<std::string_view, 1> kModelTypes{"qwen2"};
constexpr auto kRules = std::to_array<WeightRule>({
    {AttnQBias},
    {AttnKBias},
    {AttnVBias},
});

constexpr Family kFamily = {"qwen2", kGguf, kModelTypes, kRules, &read_dense_with_windows};

}  // namespace

const Family& qwen2_family() {
  return kFamily;
}

}  // namespace lockstep
