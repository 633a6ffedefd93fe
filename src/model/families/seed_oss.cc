// Seed-OSS: Llama with biases.
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"seed_oss"};
constexpr std::array<std::string_view, 1> kModelTypes{"seed_oss"};
constexpr auto kRules = std::to_array<WeightRule>({
    {FfnNorm, false, {}, "blk.{}.post_attention_norm.weight"},
});

constexpr Family kFamily = {"seed_oss", kGguf, kModelTypes, kRules, &read_dense};

}  // namespace

const Family& seed_oss_family() {
  return kFamily;
}

}  // namespace lockstep
