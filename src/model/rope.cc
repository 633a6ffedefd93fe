// Frequencies of rotary embeddings: plain, linear (position interpolation, arXiv 2306.15595), proportional, Llama 3's
// and YaRN (arXiv 2309.00071).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/model.h"

namespace lockstep {
namespace {

// The pair whose wavelength makes `turns` full turns over the original context, as a real number.
double pair_of_turns(const RopeSpec& rope, double turns) {
  const double wavelength_turns = static_cast<double>(rope.original_context) / (turns * 2 * std::numbers::pi);
  return static_cast<double>(rope.rotary) * std::log(wavelength_turns) / (2 * std::log(rope.base));
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& rope) {
  const int64_t pairs = rope.rotary / 2;
  std::vector<double> frequencies(static_cast<size_t>(pairs));
  for (int64_t i = 0; i < pairs; ++i) {
    frequencies[static_cast<size_t>(i)] =
        std::pow(rope.base, -2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary));
  }
  if (rope.scaling == RopeSpec::Scaling::Linear || rope.scaling == RopeSpec::Scaling::Proportional) {
    for (double& f : frequencies) f /= rope.factor;
  }
  if (rope.scaling == RopeSpec::Scaling::Proportional) {
    std::fill(frequencies.begin() + rope.turning, frequencies.end(), 0.0);
  }
  if (rope.scaling == RopeSpec::Scaling::Llama3) {
    // Pairs that turn often keep their frequency, those that turn seldom are stretched, those between are blended.
    for (double& f : frequencies) {
      const double turns = static_cast<double>(rope.original_context) * f / (2 * std::numbers::pi);
      const double keep =
          std::clamp((turns - rope.low_frequency) / (rope.high_frequency - rope.low_frequency), 0.0, 1.0);
      f = f * keep + f / rope.factor * (1 - keep);
    }
  }
  if (rope.scaling == RopeSpec::Scaling::Yarn) {
    // Fast pairs keep their frequency, slow pairs are interpolated, those between are blended along a ramp.
    const double low = std::max(0.0, std::floor(pair_of_turns(rope, rope.beta_fast)));
    const double high = std::min(static_cast<double>(rope.rotary - 1), std::ceil(pair_of_turns(rope, rope.beta_slow)));
    for (int64_t i = 0; i < pairs; ++i) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
      double& f = frequencies[static_cast<size_t>(i)];
      f = f / rope.factor * ramp + f * (1 - ramp);
    }
  }
  return frequencies;
}

}  // namespace lockstep
