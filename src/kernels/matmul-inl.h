// The matrix product of the vector tables. Included once per target by vector.cc.
//
// The order of additions of one output element, the whole of it:
//   a leaf is the sum of its chunks of kChunk elements, first to last;
//   a chunk is kLanes chains of fused multiply-adds, element k of the chunk to chain k mod kLanes, k ascending, a last
//   part of a block filled up with zeros;
//   the chains are joined by halves (FoldColumns).
// SumTile does this for a tile of rows and columns, and is the only code that does; a tile's size, and whether its
// weights were dequantised on the way or in a panel before, change which elements are computed together but not one
// element's sum.
#if defined(LOCKSTEP_KERNELS_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_MATMUL_INL_H_
#undef LOCKSTEP_KERNELS_MATMUL_INL_H_
#else
#define LOCKSTEP_KERNELS_MATMUL_INL_H_
#endif

#include <cassert>

#include "kernels/formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
namespace HWY_NAMESPACE {

using Four = hn::CappedTag<float, 4>;

constexpr int64_t kTileColumns = 4;
// Rows of a tile: its accumulators, one vector of each row and one of weights fill the 32 (AVX-512) or 16 registers.
constexpr int64_t kTileRows = kLanes == 16 ? 6 : 3;
// Up to this many rows, dequantising on the way costs less than the detour through a panel.
constexpr int64_t kFusedRows = kLanes == 16 ? 4 : 2;

// One chunk of some columns and rows: what SumTile computes, and SumChunk in several tiles.
struct Tile {
  const uint8_t* w = nullptr;  // the chunk's first element of the first column
  int64_t pitch = 0;           // bytes from one column to the next
  const float* x = nullptr;    // the chunk's first element of the first row
  int64_t ldx = 0;
  int64_t count = 0;     // elements of the chunk
  int64_t columns = 0;   // of a SumTile: 1 to kTileColumns
  bool add = false;      // add to out (not the leaf's first chunk) or overwrite it
  float* out = nullptr;  // [rows, ldo]
  int64_t ldo = 0;
};
using SumTileFn = void (*)(const Tile&);

template <class D>
HWY_INLINE hn::Vec<Four> FoldToFour(D /* tag */, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return FoldToFour(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The sums of four vectors' lanes. Each is joined by halves: lane i + lane (i + lanes / 2), until one is left.
HWY_INLINE hn::Vec<Four> FoldColumns(V a, V b, V c, V d) {
  const Four four;
  const auto a4 = FoldToFour(Floats(), a);
  const auto b4 = FoldToFour(Floats(), b);
  const auto c4 = FoldToFour(Floats(), c);
  const auto d4 = FoldToFour(Floats(), d);
  const auto ab = hn::Add(hn::InterleaveLower(four, a4, b4), hn::InterleaveUpper(four, a4, b4));
  const auto cd = hn::Add(hn::InterleaveLower(four, c4, d4), hn::InterleaveUpper(four, c4, d4));
  return hn::Add(hn::ConcatLowerLower(four, cd, ab), hn::ConcatUpperUpper(four, cd, ab));
}

// The sum of one vector's lanes, joined as above.
HWY_INLINE float Fold(V v) {
  const auto zero = hn::Zero(Floats());
  return hn::GetLane(FoldColumns(v, zero, zero, zero));
}

// Adds the products of 32 elements of each row and column to the chains.
template <class Format, int kRows>
HWY_INLINE void AddBlock(const uint8_t* const (&w)[kTileColumns], const float* x, int64_t ldx,
                         V (&sums)[kRows][kTileColumns]) {
  const Floats f;
  if constexpr (Format::kPlain) {  // a load an element: keep the rows' vectors in registers
    for (int64_t v = 0; v < kVectors; ++v) {
      V xs[kRows];
      for (int row = 0; row < kRows; ++row) xs[row] = hn::LoadU(f, x + row * ldx + v * kLanes);
      for (int column = 0; column < kTileColumns; ++column) {
        const V weights = Format::LoadVector(w[column] + v * kLanes * Format::kBytes / kBlock);
        for (int row = 0; row < kRows; ++row) sums[row][column] = hn::MulAdd(weights, xs[row], sums[row][column]);
      }
    }
  } else {  // a block is decoded whole: keep the weights' vectors in registers
    for (int column = 0; column < kTileColumns; ++column) {
      V weights[kVectors];
      Format::Load(w[column], weights);
      for (int64_t v = 0; v < kVectors; ++v) {
        for (int row = 0; row < kRows; ++row) {
          const V xs = hn::LoadU(f, x + row * ldx + v * kLanes);
          sums[row][column] = hn::MulAdd(weights[v], xs, sums[row][column]);
        }
      }
    }
  }
}

template <class Format, int kRows>
HWY_NOINLINE void SumTile(const Tile& tile) {
  const Floats f;
  V sums[kRows][kTileColumns];
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kTileColumns; ++column) sums[row][column] = hn::Zero(f);
  }
  const uint8_t* w[kTileColumns];
  for (int64_t column = 0; column < kTileColumns; ++column) {  // missing columns repeat the last
    w[column] = tile.w + tile.pitch * (column < tile.columns ? column : tile.columns - 1);
  }
  const float* x = tile.x;
  for (int64_t blocks = tile.count / kBlock; blocks > 0; --blocks) {
    AddBlock<Format, kRows>(w, x, tile.ldx, sums);
    for (int column = 0; column < kTileColumns; ++column) w[column] += Format::kBytes;
    x += kBlock;
  }
  if (const int64_t left = tile.count % kBlock; left > 0) {
    alignas(64) float padded_w[kTileColumns][kBlock];
    alignas(64) float padded_x[kRows][kBlock];
    V part[kVectors];
    for (int column = 0; column < kTileColumns; ++column) {
      LoadPart<Format>(w[column], left, part);
      StoreBlock(part, padded_w[column]);
      w[column] = reinterpret_cast<const uint8_t*>(padded_w[column]);
    }
    for (int row = 0; row < kRows; ++row) {
      LoadPart<F32>(reinterpret_cast<const uint8_t*>(x + row * tile.ldx), left, part);
      StoreBlock(part, padded_x[row]);
    }
    AddBlock<F32, kRows>(w, padded_x[0], kBlock, sums);
  }
  const Four four;
  alignas(16) float chunk[kRows][kTileColumns];
  for (int row = 0; row < kRows; ++row) {
    hn::Store(FoldColumns(sums[row][0], sums[row][1], sums[row][2], sums[row][3]), four, chunk[row]);
  }
  for (int row = 0; row < kRows; ++row) {
    float* out = tile.out + row * tile.ldo;
    for (int64_t i = 0; i < tile.columns; ++i) out[i] = tile.add ? out[i] + chunk[row][i] : chunk[row][i];
  }
}

// What the product and dequantisation need of a format of formats-inl.h.
struct FormatOps {
  DType dtype;
  bool plain;
  int64_t block_bytes;  // bytes of 32 elements
  void (*dequantize)(const uint8_t* row, int64_t first, int64_t count, float* out);
  SumTileFn sum_tile[kFusedRows];  // [rows - 1]
};

template <class Format>
constexpr FormatOps MakeOps(DType dtype) {
  FormatOps ops = {dtype, Format::kPlain, Format::kBytes, Dequantize<Format>, {SumTile<Format, 1>, SumTile<Format, 2>}};
  if constexpr (kFusedRows == 4) {
    ops.sum_tile[2] = SumTile<Format, 3>;
    ops.sum_tile[3] = SumTile<Format, 4>;
  }
  return ops;
}

constexpr FormatOps kFormats[] = {
    // the first of DType, in its order
    MakeOps<F32>(DType::F32),   MakeOps<F16>(DType::F16),   MakeOps<BF16>(DType::BF16), MakeOps<Q4_0>(DType::Q4_0),
    MakeOps<Q4_1>(DType::Q4_1), MakeOps<Q5_0>(DType::Q5_0), MakeOps<Q5_1>(DType::Q5_1), MakeOps<Q8_0>(DType::Q8_0),
};

// Tiles over a panel of floats, [rows - 1].
constexpr SumTileFn kPanelTiles[] = {SumTile<F32, 1>, SumTile<F32, 2>, SumTile<F32, 3>,
                                     SumTile<F32, 4>, SumTile<F32, 5>, SumTile<F32, 6>};

// Null for a format that has no vector code here: it is decoded by dequantize_stored, and its products go through the
// panel.
HWY_INLINE const FormatOps* VectorFormat(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  if (index >= sizeof(kFormats) / sizeof(kFormats[0])) return nullptr;
  assert(kFormats[index].dtype == dtype);
  return &kFormats[index];
}

void DequantizeRow(DType dtype, const std::byte* row, int64_t first, int64_t count, float* out) {
  if (const FormatOps* format = VectorFormat(dtype)) {
    format->dequantize(reinterpret_cast<const uint8_t*>(row), first, count, out);
  } else {
    dequantize_stored(dtype, row, first, count, out);
  }
}

// One chunk of every column and row of `all`, tile by tile. sum_tile is [tile_rows], by rows less one.
void SumChunk(const SumTileFn* sum_tile, int64_t tile_rows, const Tile& all, int64_t rows) {
  Tile tile = all;
  for (int64_t row = 0; row < rows; row += tile_rows) {
    const int64_t here = rows - row < tile_rows ? rows - row : tile_rows;
    tile.x = all.x + row * all.ldx;
    for (int64_t column = 0; column < all.columns; column += kTileColumns) {
      tile.columns = all.columns - column < kTileColumns ? all.columns - column : kTileColumns;
      tile.w = all.w + column * all.pitch;
      tile.out = all.out + row * all.ldo + column;
      sum_tile[here - 1](tile);
    }
  }
}

void Matmul(const MatmulArgs& args) {
  const WeightMatrix& w = args.w;
  const FormatOps* format = VectorFormat(w.dtype);
  const bool on_blocks =
      w.lead % kBlock == 0 && (args.leaves.leaf_cols % kBlock == 0 || args.leaves.leaf_cols >= w.cols);
  const bool fused = format != nullptr && (format->plain || on_blocks) && args.rows <= kFusedRows;
  const int64_t panel_columns = fused ? kTileColumns : kPanelColumns;
  for (int64_t n = args.n_begin; n < args.n_end; n += panel_columns) {
    const int64_t columns = args.n_end - n < panel_columns ? args.n_end - n : panel_columns;
    const std::byte* stored = w.data + n * w.row_bytes;
    for_each_leaf(args, n, columns, [&](int64_t begin, int64_t end, float* plane) {
      for (int64_t k = begin; k < end; k += kChunk) {
        Tile tile;
        tile.x = args.x + k;
        tile.ldx = args.ldx;
        tile.count = end - k < kChunk ? end - k : kChunk;
        tile.add = k > begin;
        tile.out = plane + n;
        tile.ldo = args.ldo;
        tile.columns = columns;
        if (fused) {
          tile.w = reinterpret_cast<const uint8_t*>(stored) + (w.lead + k) * format->block_bytes / kBlock;
          tile.pitch = w.row_bytes;
          SumChunk(format->sum_tile, kFusedRows, tile, args.rows);
          continue;
        }
        for (int64_t column = 0; column < columns; ++column) {
          float* panel = args.scratch + column * kPanelPitch;
          DequantizeRow(w.dtype, stored + column * w.row_bytes, w.lead + k, tile.count, panel);
        }
        tile.w = reinterpret_cast<const uint8_t*>(args.scratch);
        tile.pitch = kPanelPitch * static_cast<int64_t>(sizeof(float));
        SumChunk(kPanelTiles, kTileRows, tile, args.rows);
      }
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // the toggled guard
