// Hunyuan v1 Dense: norms of each query and key head after the rotation.
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"hunyuan-dense"};
constexpr std::array<std::string_view, 1> kModelTypes{"hunyuan_v1_dense"};
constexpr auto kRules = std::to_array<WeightRule>({
    {AttnQNorm, true, "layers.{}.self_attn.query_layernorm.weight"},
    {AttnKNorm, true, "layers.{}.self_attn.key_layernorm.weight"},
});

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  for (LayerSpec& layer : spec.layers) layer.norm_after_rope = true;
  return spec;
}

constexpr Family kFamily = {"hunyuan_v1_dense", kGguf, kModelTypes, kRules, &read};

}  // namespace

const Family& hunyuan_v1_dense_family() {
  return kFamily;
}

}  // namespace lockstep
