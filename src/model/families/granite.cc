// Granite 3 dense: Llama with multipliers of the embedding, the scores, the residual stream and the logits.
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 1> kGguf{"granite"};
constexpr std::array<std::string_view, 1> kModelTypes{"granite"};

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  spec.embedding_scale = static_cast<float>(config.above(0, {"embedding_scale", "embedding_multiplier"}, 1));
  spec.residual_scale = static_cast<float>(config.above(0, {"residual_scale", "residual_multiplier"}, 1));
  spec.logit_scale = static_cast<float>(1 / config.above(0, {"logit_scale", "logits_scaling"}, 1));
  const double usual = static_cast<double>(spec.layers.front().score_scale);
  for (LayerSpec& layer : spec.layers) {
    layer.score_scale = static_cast<float>(config.above(0, {"attention.scale", "attention_multiplier"}, usual));
    if (!config.get_bool({"rope.scaling.finetuned", ""}).value_or(true)) layer.rope.rotary = 0;  // no positions
    // The GGUF converter reorders the rows of q and k as it does for Llama.
    if (config.gguf()) layer.rope.pairs = RopeSpec::Pairs::Adjacent;
  }
  return spec;
}

constexpr auto kDefaults = std::to_array<Default>({
    {"rms_norm_eps", 1e-6},
    {"attention_multiplier", 1},
});
constexpr Family kFamily = {"granite", kGguf, kModelTypes, {}, &read, kDefaults};

}  // namespace

const Family& granite_family() {
  return kFamily;
}

}  // namespace lockstep
