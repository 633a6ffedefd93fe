// (projection normed + embedding) / sqrt(2), each scaled as the model was trained.
#include "decoder/layer_inputs.h"

#include <cmath>

namespace lockstep {

LayerInputs::LayerInputs(const RankContext& rank) : rank_(rank), width_(rank.spec.layer_input) {
  if (!any()) return;
  counts_.resize(static_cast<size_t>(rank.plan.tp_size()));
  const auto here = static_cast<size_t>(rank.options.max_rows * rank.plan.layer_inputs.here(rank.rank));
  mine_ = AlignedBuffer<float>(here);
  looked_up_ = AlignedBuffer<float>(here);
  all_ = AlignedBuffer<float>(static_cast<size_t>(rank.options.max_rows * rank.plan.layer_inputs.size));
}

void LayerInputs::prepare(const Batch& batch, const float* input, Products& products) {
  const Zone zone(rank_.options.lane, ZoneName::LayerInputs);
  rows_ = static_cast<int64_t>(batch.tokens.size());
  const int64_t here = rank_.plan.layer_inputs.here(rank_.rank);
  if (here > 0) {
    products.run(input, rank_.spec.hidden, rows_,
                 {products.column_parallel(rank_.weights.get(Role::LayerInputProjection), mine_.data())});
    look_up(batch);
    const float* norm = rank_.weights.get(Role::LayerInputProjectionNorm).vector;
    const float projected = static_cast<float>(1 / std::sqrt(static_cast<double>(rank_.spec.hidden)));
    const float both = static_cast<float>(1 / std::sqrt(2.0));
    rank_.team.split(rows_, 1, [&](int64_t begin, int64_t end, int) {
      float* x = mine_.data() + begin * here;
      const int64_t count = (end - begin) * here;
      rank_.kernels.scale(x, projected, count);
      rank_.kernels.rms_norm(x, norm, x, count / width_, width_, rank_.spec.norm_eps);
      rank_.kernels.add(x, looked_up_.data() + begin * here, count);
      rank_.kernels.scale(x, both, count);
      rank_.group.tick();
    });
  }
  for (int r = 0; r < rank_.plan.tp_size(); ++r) {
    counts_[static_cast<size_t>(r)] = static_cast<size_t>(rows_ * rank_.plan.layer_inputs.here(r));
  }
  rank_.group.at({-1, site::kLayerInputs});
  rank_.group.all_gather({mine_.data(), static_cast<size_t>(rows_ * here)}, counts_,
                         {all_.data(), static_cast<size_t>(rows_ * rank_.plan.layer_inputs.size)});
}

// Of each row's token, the columns of this rank's layers.
void LayerInputs::look_up(const Batch& batch) {
  const WeightMatrix& embedding = rank_.weights.get(Role::LayerInputEmbedding).matrix;
  const int64_t here = embedding.cols;
  rank_.team.split(rows_, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = looked_up_.data() + row * here;
      const std::byte* from = embedding.data + batch.tokens[static_cast<size_t>(row)] * embedding.row_bytes;
      rank_.kernels.dequantize(embedding.dtype, from, embedding.lead, here, to);
      rank_.kernels.scale(to, rank_.spec.layer_embedding_scale, here);
    }
    rank_.group.tick();
  });
}

const float* LayerInputs::of(int64_t layer, int64_t row) const {
  const Division& division = rank_.plan.layer_inputs;
  int owner = 0;
  while (division.runs[static_cast<size_t>(owner)].end <= layer) ++owner;
  const int64_t before = division.begin(owner) * rows_;  // floats of earlier ranks
  return all_.data() + before + row * division.here(owner) + layer * width_ - division.begin(owner);
}

}  // namespace lockstep
