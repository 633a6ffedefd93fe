// Loading one rank's slices: runs of bytes read from the checkpoint, and joined into blocks where codes and scales are
// stored apart.
#include "decoder/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

namespace lockstep {
namespace {

constexpr int64_t kPiece = 1 << 20;  // bytes read between two ticks

// Rows up to this many bytes are read whole, kSpan at once, and the runs copied out of them: a system call for every
// run would cost more than the bytes between, which share the pages of the runs anyway.
constexpr int64_t kShortRow = 8 << 10;
constexpr int64_t kSpan = 64 << 10;

// What a rank holds of a weight: rows, and blocks of each of them, both in the order of the network.
struct Cut {
  Range rows;
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
    cut = {{0, spec.out.size()},
           {slice.stored_begin / format.block_elements, slice.stored_end / format.block_elements}};
    matrix.cols = slice.end - slice.begin;
    matrix.lead = slice.begin - slice.stored_begin;
  } else {
    cut = {{slice.begin, slice.end}, {0, spec.in.size() / format.block_elements}};
    matrix.cols = spec.in.size();
  }
  matrix.rows = cut.rows.size();
  matrix.row_bytes = cut.blocks.size() * format.block_bytes;
  return cut;
}

// A run of bytes of every stored row, and where it belongs in a row of the slice.
struct Run {
  int64_t from = 0;
  int64_t to = 0;
  int64_t bytes = 0;
};

// Where one part of a cut lies.
struct Source {
  const std::byte* data = nullptr;  // the weight's first row
  int64_t stride = 0;               // bytes of a stored row
  int64_t row_bytes = 0;            // of a row of the slice
  std::vector<Run> runs;            // in the order of the slice
  Range span;                       // of a stored row, around all runs
};

Source source_of(const WeightSpec& spec, const Cut& cut, const TensorPart& part) {
  const int64_t elements = info(spec.dtype).block_elements;  // runs of the file are whole blocks
  Source source;
  source.stride = spec.in.size() / elements * part.block_bytes;
  source.data = part.bytes.data() + spec.first_row * source.stride;
  source.span = {source.stride, 0};
  for (int64_t block = cut.blocks.begin; block < cut.blocks.end;) {
    const int64_t most = cut.blocks.end - block;
    const int64_t count = std::min(most, std::max<int64_t>(1, spec.in.together(block * elements) / elements));
    const Run run{spec.in.stored(block * elements) / elements * part.block_bytes, source.row_bytes,
                  count * part.block_bytes};
    source.span = {std::min(source.span.begin, run.from), std::max(source.span.end, run.from + run.bytes)};
    source.row_bytes += run.bytes;
    source.runs.push_back(run);
    block += count;
  }
  return source;
}

// `first`: of the stored rows.
void read_rows(const Checkpoint& checkpoint, const Source& source, int64_t first, int64_t rows, std::byte* to) {
  const std::byte* from = source.data + first * source.stride;
  if (source.runs.size() == 1 && source.row_bytes == source.stride) {
    return checkpoint.read({from, static_cast<size_t>(rows * source.stride)}, to);
  }
  if (source.stride > kShortRow) {
    for (int64_t i = 0; i < rows; ++i) {
      for (const Run& run : source.runs) {
        checkpoint.read({from + i * source.stride + run.from, static_cast<size_t>(run.bytes)},
                        to + i * source.row_bytes + run.to);
      }
    }
    return;
  }
  std::array<std::byte, kSpan> span;
  const int64_t most = kSpan / source.stride;
  for (int64_t i = 0; i < rows; i += most) {
    const int64_t count = std::min(most, rows - i);
    checkpoint.read({from + i * source.stride + source.span.begin,
                     static_cast<size_t>((count - 1) * source.stride + source.span.size())},
                    span.data());
    for (int64_t j = 0; j < count; ++j) {
      for (const Run& run : source.runs) {
        std::memcpy(to + (i + j) * source.row_bytes + run.to,
                    span.data() + j * source.stride + run.from - source.span.begin, static_cast<size_t>(run.bytes));
      }
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

// Reads stored rows [first, first + rows) of a slice whose parts lie apart, and joins them into blocks. `stage` holds
// the rows of one part.
void read_parts(const Checkpoint& checkpoint, const TensorInfo& tensor, std::span<const Source> sources, int64_t first,
                int64_t rows, std::byte* stage, std::byte* to) {
  const int64_t block_bytes = info(tensor.dtype).block_bytes;
  for (size_t i = 0; i < sources.size(); ++i) {
    const TensorPart& part = tensor.parts[i];
    read_rows(checkpoint, sources[i], first, rows, stage);
    scatter(stage, rows * sources[i].row_bytes / part.block_bytes, part.block_bytes, block_bytes, to + part.offset);
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
    const int64_t row_bytes = weight.matrix.row_bytes;
    const int64_t bytes = cut.rows.size() * row_bytes;
    if (bytes == 0) continue;

    std::vector<Source> sources;
    for (const TensorPart& part : tensor.parts) sources.push_back(source_of(weight_spec, cut, part));
    weight.bytes = AlignedBuffer<std::byte>(static_cast<size_t>(bytes));
    const int64_t rows_of_piece = std::max<int64_t>(1, kPiece / row_bytes);
    team.split(cut.rows.size(), kTileCols, [&](int64_t begin, int64_t end, int) {
      std::vector<std::byte> stage;
      if (sources.size() > 1) stage.resize(static_cast<size_t>(std::min(rows_of_piece, end - begin) * row_bytes));
      for (int64_t row = begin; row < end;) {
        const int64_t in_order = cut.rows.begin + row;
        const int64_t count = std::min({rows_of_piece, end - row, weight_spec.out.together(in_order)});
        const int64_t stored = weight_spec.out.stored(in_order);
        std::byte* to = weight.bytes.data() + row * row_bytes;
        if (sources.size() == 1) {
          read_rows(checkpoint, sources.front(), stored, count, to);
        } else {
          read_parts(checkpoint, tensor, sources, stored, count, stage.data(), to);
        }
        group.tick();
        if (loaded_bytes != nullptr) *loaded_bytes += count * row_bytes;
        row += count;
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
      if (weight_spec.role == Role::DeltaRate && spec.rates_are_logs) {
        for (float& element : weight.floats.span()) element = -std::exp(element);
      }
      weight.bytes = {};
      weight.matrix.data = nullptr;
      weight.vector = weight.floats.data();
    }
    bytes_ += static_cast<int64_t>(weight.bytes.bytes() + weight.floats.bytes());
  }
}

}  // namespace lockstep
