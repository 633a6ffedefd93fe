// Work items of kTileRows rows by kTileCols columns.
#include "decoder/products.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr int64_t kTileRows = 256;

}  // namespace

Products::Products(const Kernels& kernels, Group& group, Team& team) : kernels_(kernels), group_(group), team_(team) {
  for (int t = 0; t < team.threads(); ++t) scratch_.emplace_back(size_t{kMatmulScratch});
}

void Products::run(const float* x, int64_t ldx, int64_t rows, std::initializer_list<Product> products) {
  team_.run([&](int thread) {
    for (const Product& product : products) {
      const WeightMatrix& w = product.weight->matrix;
      const Team::Part mine = team_.part(w.rows, kTileCols, thread);
      for (int64_t column = mine.begin; column < mine.end; column += kTileCols) {
        for (int64_t row = 0; row < rows; row += kTileRows) {
          MatmulArgs args;
          args.x = x + row * ldx;
          args.rows = std::min(kTileRows, rows - row);
          args.ldx = ldx;
          args.w = w;
          args.leaves = product.leaves;
          args.n_begin = column;
          args.n_end = std::min(mine.end, column + kTileCols);
          args.out = product.out + row * w.rows;
          args.ldo = w.rows;
          args.plane = rows * w.rows;
          args.scratch = scratch_[static_cast<size_t>(thread)].data();
          kernels_.matmul(args);
          group_.tick();
        }
      }
    }
  });
  for (const Product& product : products) {
    if (product.bias != nullptr) add_bias(product.out, rows, product.weight->matrix.rows, product.bias);
  }
}

void Products::add_bias(float* out, int64_t rows, int64_t width, const float* bias) const {
  for (int64_t row = 0; row < rows; ++row) kernels_.add(out + row * width, bias, width);
}

}  // namespace lockstep
