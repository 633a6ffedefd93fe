// Llama 1, 2, 3 and what is published under the same names: SmolLM2, Mistral 7B, ...
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"llama"};
constexpr std::array<std::string_view, 2> kModelTypes{"llama", "mistral"};
constexpr auto kRules = std::to_array<WeightRule>({
    {RopeFactors, true},
});

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  const int64_t window = config.get_int({"", "sliding_window"}, 1, INT32_MAX).value_or(0);
  for (LayerSpec& layer : spec.layers) {
    // The GGUF converter reorders the rows of q and k so that the two elements of a rotary pair lie side by side.
    if (config.gguf()) layer.rope.pairs = RopeSpec::Pairs::Adjacent;
    if (config.family() == "mistral") layer.window = window;
  }
  return spec;
}

constexpr auto kDefaults = std::to_array<Default>({
    {"max_position_embeddings", 2048},
    {"rms_norm_eps", 1e-6},
});
constexpr Family kFamily = {"llama", kGguf, kModelTypes, kRules, &read, kDefaults};

}  // namespace

const Family& llama_family() {
  return kFamily;
}

}  // namespace lockstep
