// The door of plan/: a ModelSpec x a mesh x strategies -> what every rank holds, and where the ranks communicate.
//
// make_plan() is pure arithmetic: no threads, no files, nothing allocated but the answer. The decoder loads by it, the
// engine sizes caches by it, and `inspect` prints it, so what is predicted is what happens. One partition function
// (apportion) divides every dimension: contiguous runs of units, equal or by shares, remainders rotating over the
// ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "tensor/tensor.h"

namespace lockstep {

enum class Strategy : uint8_t {
  ColumnParallel,  // the output dimension (rows of the stored matrix) is divided
  RowParallel,     // the input dimension (columns) is divided, at leaves of the reduction tree
  VocabParallel,   // rows, by vocabulary entry
  Replicated,      // every rank holds all
};
enum class CommPattern : uint8_t { None, AllReduce, AllGather, Gather };
enum class VocabMode : uint8_t { VocabParallel, Replicated };
enum class ReduceMode : uint8_t { Tree, Ring };

std::string_view name_of(Strategy strategy);
std::string_view name_of(CommPattern pattern);

struct PlanOptions {
  int tp_size = 1;
  std::vector<double> shares = {};  // [tp_size] or empty for equal shares; finite, not negative, not all zero
  VocabMode embedding = VocabMode::VocabParallel;
  VocabMode lm_head = VocabMode::VocabParallel;
  ReduceMode reduce = ReduceMode::Tree;
  // Every leaf is contributed by itself instead of joined within its rank: the same bits, more bytes. Shows which leaf
  // a difference began in.
  bool every_leaf = false;
};

// Divides `units` into contiguous runs, one a rank, by largest remainder; ranks that tie are served in the order
// rotation, rotation + 1, ... (modulo the number of ranks). shares: [ranks].
std::vector<Range> apportion(int64_t units, const std::vector<double>& shares, int64_t rotation);

// One dimension cut into leaves and divided among the ranks.
struct Division {
  int64_t size = 0;         // elements
  int64_t leaf = 1;         // elements of a leaf; the last one may be shorter
  std::vector<Range> runs;  // [ranks], in leaves

  int64_t leaves() const { return (size + leaf - 1) / leaf; }
  int64_t begin(int rank) const { return std::min(size, runs[static_cast<size_t>(rank)].begin * leaf); }
  int64_t end(int rank) const { return std::min(size, runs[static_cast<size_t>(rank)].end * leaf); }
  int64_t here(int rank) const { return end(rank) - begin(rank); }
};

struct LayerPlan {
  Division heads;               // over heads * head_dim elements: the input of the attention output
  std::vector<Range> kv_heads;  // [ranks]: the KV heads that the rank's query heads read
  Division ffn;                 // the inner width: the input of down
  Division input;               // Axis::LayerInput: empty where layers have none
  TreeLayout heads_layout;      // what the all-reduce after the attention output joins
  TreeLayout ffn_layout;
  TreeLayout input_layout;
};

// Elements [begin, end) along the divided side, and the whole blocks around them, [stored_begin, stored_end), which the
// rank keeps in `bytes` bytes.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stored_begin = 0;
  int64_t stored_end = 0;
  int64_t bytes = 0;
};

// Stored elements along the divided side that several ranks keep.
struct SharedRange {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<int> ranks;
};

struct TensorPlan {
  int64_t weight = 0;  // index in ModelSpec::weights
  Strategy strategy = Strategy::Replicated;
  CommPattern comm = CommPattern::None;  // what follows the operation of this weight
  std::vector<Slice> slices;             // [ranks]
  std::vector<SharedRange> shared;       // ascending
  std::vector<int64_t> shared_bytes;     // [ranks]: bytes of the slice that another rank keeps as well
  bool by_columns = false;               // whether the columns are divided, else the rows
};

// The names of sites; the decoder names its collectives by them.
namespace site {
inline constexpr const char* kTokenEmbedding = "token_embd";
inline constexpr const char* kAttnOutput = "attn_output";
inline constexpr const char* kFfnDown = "ffn_down";
inline constexpr const char* kLayerInputs = "layer_inputs";
inline constexpr const char* kLayerInput = "layer_input";
inline constexpr const char* kLmHead = "lm_head";
}  // namespace site

struct SitePlan {
  int64_t layer = -1;
  std::string name;
  CommPattern pattern = CommPattern::None;
  int64_t bytes_per_token = 0;  // over all ranks: nodes x width x 4, or width x 4 for a gather
};

struct RankPlan {
  int64_t weight_bytes = 0;
  int64_t replicated_bytes = 0;     // of weight_bytes, what another rank holds as well
  int64_t kv_values_per_token = 0;  // elements of K and V over all layers
  int64_t state_values = 0;         // floats of recurrent state over all layers, for each sequence
};

struct ShardPlan {
  PlanOptions options;
  std::vector<LayerPlan> layers;
  Division vocab;                   // the rows of the head (and of the embedding)
  Division layer_inputs;            // Axis::LayerInputs, a layer a leaf; empty where layers have none
  std::vector<TensorPlan> tensors;  // in the order of ModelSpec::weights
  std::vector<SitePlan> sites;      // in the order a step passes them; none for one rank
  std::vector<RankPlan> ranks;
  int tp_size() const { return options.tp_size; }
};

// The largest size at which every rank can have work: the most leaves of any dimension that is summed over.
int64_t largest_tp_size(const ModelSpec& spec);

// Throws Error(DoesNotFit) in one line that names the dimension and the nearest sizes that do; Error(Usage) for shares
// that are not numbers.
ShardPlan make_plan(const ModelSpec& spec, const PlanOptions& options);

}  // namespace lockstep
