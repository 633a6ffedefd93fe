// Loading one rank's slices: runs of bytes read from the checkpoint.
#include "decoder/weights.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {
namespace {

constexpr int64_t kPiece = 1 << 20;  // bytes read between two ticks

// Rows up to this many bytes are read whole, kSpan at once, and the runs copied out of them: a system call for every
// run would cost more than the bytes between, which share the pages of the runs anyway.
constexpr int64_t kShortRow = 8 << 10;
constexpr int64_t kSpan = 64 << 10;

// Where the slice [begin, end) lies in the stored tensor: `rows` runs of `run` bytes, `stride` apart.
struct Source {
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t run = 0;
  int64_t stride = 0;
};

Source source_of(const WeightSpec& spec, const TensorPlan& plan, const TensorInfo& tensor, int rank,
                 WeightMatrix& matrix) {
  const Slice& slice = plan.slices[static_cast<size_t>(rank)];
  const int64_t cols = spec.in.size();
  const int64_t stride = row_bytes(spec.dtype, cols);
  matrix.dtype = spec.dtype;
  if (slice.begin == slice.end) return {};
  if (!plan.by_columns()) {
    matrix.rows = slice.end - slice.begin;
    matrix.cols = cols;
    matrix.row_bytes = stride;
    return {tensor.bytes.data() + slice.begin * stride, matrix.rows, stride, stride};
  }
  matrix.rows = spec.out.size();
  matrix.cols = slice.end - slice.begin;
  matrix.lead = slice.begin - slice.stored_begin;
  matrix.row_bytes = row_bytes(spec.dtype, slice.stored_end - slice.stored_begin);
  return {tensor.bytes.data() + row_bytes(spec.dtype, slice.stored_begin), matrix.rows, matrix.row_bytes, stride};
}

void read_rows(const Checkpoint& checkpoint, const Source& source, int64_t first, int64_t rows, std::byte* to) {
  const std::byte* from = source.data + first * source.stride;
  if (source.run == source.stride) return checkpoint.read({from, static_cast<size_t>(rows * source.run)}, to);
  const auto run = static_cast<size_t>(source.run);
  if (source.stride > kShortRow) {
    for (int64_t i = 0; i < rows; ++i) checkpoint.read({from + i * source.stride, run}, to + i * source.run);
    return;
  }
  std::array<std::byte, kSpan> span;
  const int64_t most = kSpan / source.stride;
  for (int64_t i = 0; i < rows; i += most) {
    const int64_t count = std::min(most, rows - i);
    checkpoint.read({from + i * source.stride, static_cast<size_t>((count - 1) * source.stride) + run}, span.data());
    for (int64_t j = 0; j < count; ++j) {
      std::memcpy(to + (i + j) * source.run, span.data() + j * source.stride, run);
    }
  }
}

}  // namespace

Weights::Weights(const ModelSpec& spec, const ShardPlan& plan, int rank, const Checkpoint& checkpoint,
                 const Kernels& kernels, Group& group, Team& team, std::atomic<int64_t>* loaded_bytes)
    : weights_(spec.layers.size() + 1) {
  for (const TensorPlan& tensor_plan : plan.tensors) {
    const WeightSpec& weight_spec = spec.weights[static_cast<size_t>(tensor_plan.weight)];
    const TensorInfo& tensor = *checkpoint.find(weight_spec.name);
    Weight& weight = weights_[static_cast<size_t>(weight_spec.layer + 1)][static_cast<size_t>(weight_spec.role)];
    weight.plan = &tensor_plan;
    const Source source = source_of(weight_spec, tensor_plan, tensor, rank, weight.matrix);
    const int64_t bytes = source.rows * source.run;
    if (bytes == 0) continue;

    weight.bytes = AlignedBuffer<std::byte>(static_cast<size_t>(bytes));
    const int64_t rows_of_piece = std::max<int64_t>(1, kPiece / source.run);
    team.split(source.rows, kTileCols, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; row += rows_of_piece) {
        const int64_t count = std::min(rows_of_piece, end - row);
        read_rows(checkpoint, source, row, count, weight.bytes.data() + row * source.run);
        group.tick();
        if (loaded_bytes != nullptr) *loaded_bytes += count * source.run;
      }
    });
    read_bytes_ += bytes;
    weight.matrix.data = weight.bytes.data();
    if (weight_spec.in.axis == Axis::One) {
      // A vector: one column of `rows` elements, held as floats.
      const int64_t elements = weight.matrix.rows;
      weight.floats = AlignedBuffer<float>(static_cast<size_t>(elements));
      kernels.dequantize(weight_spec.dtype, weight.bytes.data(), 0, elements, weight.floats.data());
      weight.bytes = {};
      weight.matrix.data = nullptr;
      weight.vector = weight.floats.data();
    }
    bytes_ += static_cast<int64_t>(weight.bytes.bytes() + weight.floats.bytes());
  }
}

}  // namespace lockstep
