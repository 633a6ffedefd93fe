// Qwen2 and Qwen2.5: Llama with biases on q, k and v.
#include <array>

#include "base/error.h"
#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"qwen2"};
constexpr std::array<std::string_view, 1> kModelTypes{"qwen2"};
constexpr auto kRules = std::to_array<WeightRule>({
    {TokenEmbedding},
    {OutputNorm},
    {LmHead, true},
    {AttnNorm},
    {AttnQ},
    {AttnQBias},
    {AttnK},
    {AttnKBias},
    {AttnV},
    {AttnVBias},
    {AttnOutput},
    {FfnNorm},
    {FfnGate},
    {FfnUp},
    {FfnDown},
});

ModelSpec read(const Config& config) {
  const Key window{"", "use_sliding_window"};
  if (config.get_bool(window).value_or(false)) {
    fail(ErrorKind::Unsupported, "{}: {} is true; Qwen2 models with a sliding window do not run", config.file(),
         config.name(window));
  }
  return read_dense(config);
}

constexpr Family kFamily = {"qwen2", kGguf, kModelTypes, kRules, &read};

}  // namespace

const Family& qwen2_family() {
  return kFamily;
}

}  // namespace lockstep
