// Loading one rank's slices: runs of bytes read from the checkpoint, and joined into blocks where codes and scales are
// stored apart.
#include "decoder/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace lockstep {
namespace {

constexpr int64_t kPiece = 1 << 20;  // bytes read between two ticks

// Rows up to this many bytes are read whole, kSpan at once, and the runs copied out of them: a system call for every
// run would cost more than the bytes between, which share the pages of the runs anyway.
constexpr int64_t kShortRow = 8 << 10;
constexpr int64_t kSpan = 64 << 10;

// What a rank holds of a stored tensor: blocks [blocks.begin, blocks.end) of each of `rows` rows.
struct Cut {
  int64_t first_row = 0;
  int64_t rows = 0;
  Range blocks;
};

// Also says in `matrix` what the cut is.
Cut cut_of(const WeightSpec& spec, const TensorPlan& plan, int rank, WeightMatrix& matrix) {
  const Slice& slice = plan.slices[static_cast<size_t>(rank)];
  const DTypeInfo& format = info(spec.dtype);
  matrix.dtype = spec.dtype;
  if (slice.begin == slice.end) return {};
  Cut cut;
  if (plan.by_columns) {
    cut = {spec.first_row,
           spec.out.size(),
           {slice.stored_begin / format.block_elements, slice.stored_end / format.block_elements}};
    matrix.cols = slice.end - slice.begin;
    matrix.lead = slice.begin - slice.stored_begin;
  } else {
    cut = {spec.first_row + slice.begin, slice.end - slice.begin, {0, spec.in.size() / format.block_elements}};
    matrix.cols = spec.in.size();
  }
  matrix.rows = cut.rows;
  matrix.row_bytes = cut.blocks.size() * format.block_bytes;
  return cut;
}

// Where one part of a cut lies: `rows` runs of `run` bytes, `stride` apart.
struct Source {
  const std::byte* data = nullptr;
  int64_t run = 0;
  int64_t stride = 0;
};

// `blocks`: of a stored row.
Source source_of(const Cut& cut, int64_t blocks, const TensorPart& part) {
  const int64_t stride = blocks * part.block_bytes;
  return {part.bytes.data() + cut.first_row * stride + cut.blocks.begin * part.block_bytes,
          cut.blocks.size() * part.block_bytes, stride};
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

// Puts `count` pieces of `bytes` bytes, one behind the other, `stride` apart.
template <size_t bytes>
void scatter_fixed(const std::byte* from, int64_t count, int64_t stride, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * static_cast<int64_t>(bytes), bytes);
}

void scatter(const std::byte* from, int64_t count, int64_t bytes, int64_t stride, std::byte* to) {
  switch (bytes) {  // scales and biases, and the codes of the commonest formats, as moves of a known size
    case 1:
      return scatter_fixed<1>(from, count, stride, to);
    case 2:
      return scatter_fixed<2>(from, count, stride, to);
    case 4:
      return scatter_fixed<4>(from, count, stride, to);
    case 16:
      return scatter_fixed<16>(from, count, stride, to);
    case 32:
      return scatter_fixed<32>(from, count, stride, to);
    case 64:
      return scatter_fixed<64>(from, count, stride, to);
    default:
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * bytes, static_cast<size_t>(bytes));
  }
}

// Reads rows [first, first + rows) of a slice whose parts lie apart, and joins them into blocks. `stage` holds the rows
// of one part.
void read_parts(const Checkpoint& checkpoint, const TensorInfo& tensor, std::span<const Source> sources, int64_t first,
                int64_t rows, std::byte* stage, std::byte* to) {
  const int64_t block_bytes = info(tensor.dtype).block_bytes;
  for (size_t i = 0; i < sources.size(); ++i) {
    const TensorPart& part = tensor.parts[i];
    read_rows(checkpoint, sources[i], first, rows, stage);
    scatter(stage, rows * sources[i].run / part.block_bytes, part.block_bytes, block_bytes, to + part.offset);
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
    const Cut cut = cut_of(weight_spec, tensor_plan, rank, weight.matrix);
    const int64_t run = weight.matrix.row_bytes;
    const int64_t bytes = cut.rows * run;
    if (bytes == 0) continue;

    std::vector<Source> sources;
    const int64_t blocks = weight_spec.in.size() / info(weight_spec.dtype).block_elements;
    for (const TensorPart& part : tensor.parts) sources.push_back(source_of(cut, blocks, part));
    weight.bytes = AlignedBuffer<std::byte>(static_cast<size_t>(bytes));
    const int64_t rows_of_piece = std::max<int64_t>(1, kPiece / run);
    team.split(cut.rows, kTileCols, [&](int64_t begin, int64_t end, int) {
      std::vector<std::byte> stage;
      if (sources.size() > 1) stage.resize(static_cast<size_t>(std::min(rows_of_piece, end - begin) * run));
      for (int64_t row = begin; row < end; row += rows_of_piece) {
        const int64_t count = std::min(rows_of_piece, end - row);
        std::byte* to = weight.bytes.data() + row * run;
        if (sources.size() == 1) {
          read_rows(checkpoint, sources.front(), row, count, to);
        } else {
          read_parts(checkpoint, tensor, sources, row, count, stage.data(), to);
        }
        group.tick();
        if (loaded_bytes != nullptr) *loaded_bytes += count * run;
      }
    });
    read_bytes_ += bytes;
    weight.matrix.data = weight.bytes.data();
    if (held_as_floats(weight_spec)) {
      const int64_t elements = weight.matrix.rows * weight.matrix.cols;
      weight.floats = AlignedBuffer<float>(static_cast<size_t>(elements));
      kernels.dequantize(weight_spec.dtype, weight.bytes.data(), 0, elements, weight.floats.data());
      if (has_norm_offset(weight_spec.role)) {
        for (float& element : weight.floats.span()) element += spec.norm_offset;
      }
      weight.bytes = {};
      weight.matrix.data = nullptr;
      weight.vector = weight.floats.data();
    }
    bytes_ += static_cast<int64_t>(weight.bytes.bytes() + weight.floats.bytes());
  }
}

}  // namespace lockstep
