// ERNIE 4.5 dense: Llama whose rotary pairs lie side by side in every format; biases everywhere or nowhere.
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 1> kGguf{"ernie4_5"};
constexpr std::array<std::string_view, 1> kModelTypes{"ernie4_5"};

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  for (LayerSpec& layer : spec.layers) layer.rope.pairs = RopeSpec::Pairs::Adjacent;
  return spec;
}

constexpr auto kDefaults = std::to_array<Default>({
    {"num_key_value_heads", 2},
    {"head_dim", 128},
    {"rms_norm_eps", 1e-5},
    {"rope_theta", 5e5},
});
constexpr Family kFamily = {"ernie4_5", kGguf, kModelTypes, {}, &read, kDefaults};

}  // namespace

const Family& ernie4_5_family() {
  return kFamily;
}

}  // namespace lockstep
