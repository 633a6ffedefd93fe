// What the parts of one rank's decoder share, handed down by reference.
#pragma once

#include "base/team.h"
#include "comm/comm.h"
#include "decoder/decoder.h"
#include "decoder/weights.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "plan/plan.h"

namespace lockstep {

struct RankContext {
  const ModelSpec& spec;
  const ShardPlan& plan;
  const Kernels& kernels;
  Group& group;
  Team& team;
  const DecoderOptions& options;
  int rank;
  const Weights& weights;

  const LayerSpec& layer(int64_t index) const { return spec.layers[static_cast<size_t>(index)]; }
  const LayerPlan& layer_plan(int64_t index) const { return plan.layers[static_cast<size_t>(index)]; }

  std::string_view name_of(const Weight& weight) const {
    return spec.weights[static_cast<size_t>(weight.plan->weight)].name;
  }

  bool recording() const { return options.recorder != nullptr; }

  // Shows the recorder what `tensor` gave: `values` are [rows, stride] of which the first `width` of each row belong to
  // `unit`.
  void record(const Batch& batch, int64_t layer, std::string_view tensor, int64_t unit, const float* values,
              int64_t stride, int64_t width) const {
    if (!recording()) return;
    for (size_t row = 0; row < batch.positions.size(); ++row) {
      options.recorder->record(layer, tensor, unit, batch.sequences[row], batch.positions[row],
                               {values + static_cast<int64_t>(row) * stride, static_cast<size_t>(width)});
    }
  }

  // The same for heads [first, first + heads), values: [rows, heads, head_dim].
  void record_heads(const Batch& batch, int64_t layer, Role role, int64_t first, int64_t heads, int64_t head_dim,
                    const float* values) const {
    if (!recording()) return;
    const std::string_view name = name_of(weights.get(role, layer));
    for (int64_t head = 0; head < heads; ++head) {
      record(batch, layer, name, first + head, values + head * head_dim, heads * head_dim, head_dim);
    }
  }
};

}  // namespace lockstep
