// SmolLM3: Llama in which some layers, every fourth by default, know no positions. Windows, where the file wants them,
// are in these.
#include <array>

#include "base/error.h"
#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 1> kGguf{"smollm3"};
constexpr std::array<std::string_view, 1> kModelTypes{"smollm3"};

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  const Key listed{"", "no_rope_layers"};  // 1: the layer has a rope
  const auto has_rope = config.get_ints(listed);
  if (!has_rope.empty()) config.require_one_a_layer(listed, has_rope.size(), spec.layers.size());
  const auto period = static_cast<size_t>(config.get_int({"", "no_rope_layer_interval"}, 1, kMostWidth).value_or(4));
  std::vector<bool> without_rope(spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    RopeSpec& rope = spec.layers[i].rope;
    // The GGUF converter reorders the rows of q and k as it does for Llama.
    if (config.gguf()) rope.pairs = RopeSpec::Pairs::Adjacent;
    without_rope[i] = has_rope.empty() ? (i + 1) % period == 0 : has_rope[i] == 0;
    if (without_rope[i]) rope.rotary = 0;
  }
  read_windows(config, std::move(without_rope), spec);
  return spec;
}

constexpr auto kDefaults = std::to_array<Default>({
    {"num_key_value_heads", 4},
    {"rms_norm_eps", 1e-6},
    {"rope_theta", 2e6},
});
constexpr Family kFamily = {"smollm3", kGguf, kModelTypes, {}, &read, kDefaults};

}  // namespace

const Family& smollm3_family() {
  return kFamily;
}

}  // namespace lockstep
