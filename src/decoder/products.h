// Products of a batch's rows with weights, over the threads of one rank.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/team.h"
#include "comm/comm.h"
#include "decoder/weights.h"
#include "kernels/kernels.h"

namespace lockstep {

// A product of the batch with one weight, and the bias of a column-parallel one. `out` is [depth, rows, weight rows].
struct Product {
  const Weight* weight;
  LeafSum leaves;
  float* out;
  const float* bias = nullptr;
};

// For the rank's leader thread. Allocates when it is made, and nothing afterwards.
class Products {
 public:
  Products(const Kernels& kernels, Group& group, Team& team);

  // A column-parallel product with all of the weight's columns, and the bias of its outputs if there is one.
  Product column_parallel(const Weight& weight, float* out, const float* bias = nullptr) const {
    return {&weight, {weight.matrix.cols, &single_leaf_}, out, bias};
  }

  // Runs products of the same input rows, x: [rows, ldx], each thread taking its share of every product's columns.
  void run(const float* x, int64_t ldx, int64_t rows, std::initializer_list<Product> products);

  // out: [rows, width]
  void add_bias(float* out, int64_t rows, int64_t width, const float* bias) const;

 private:
  const Kernels& kernels_;
  Group& group_;
  Team& team_;
  const JoinProgram single_leaf_ = join_leaves(1, {0, 1});
  std::vector<AlignedBuffer<float>> scratch_;  // [threads]
};

}  // namespace lockstep
