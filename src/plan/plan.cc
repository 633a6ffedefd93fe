// From a ModelSpec and a mesh to slices, sites and bytes.
#include "plan/plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"

namespace lockstep {
namespace {

constexpr int64_t kMostHeadLeaves = 64;
constexpr int64_t kMostFfnLeaves = 32;
constexpr int64_t kPlainGroup = 32;  // columns of a unit where the weight has no blocks

DType dtype_of(const ModelSpec& spec, Role role, int64_t layer) {
  const WeightSpec* weight = spec.find(role, layer);
  assert(weight != nullptr);
  return weight->dtype;
}

// One query head a leaf; runs of heads above 64.
int64_t head_leaf(const LayerSpec& layer) {
  return ceil_div(layer.heads, kMostHeadLeaves) * layer.head_dim;
}

// The smallest multiple of the matrix's block that gives at most 32 leaves of `width` columns.
int64_t column_leaf(const ModelSpec& spec, Role role, int64_t layer, int64_t width) {
  const int64_t block = info(dtype_of(spec, role, layer)).block_elements;
  const int64_t group = block > 1 ? block : kPlainGroup;
  return ceil_div(ceil_div(width, kMostFfnLeaves), group) * group;
}

int64_t ffn_leaf(const ModelSpec& spec, int64_t layer) {
  return column_leaf(spec, Role::FfnDown, layer, spec.layers[static_cast<size_t>(layer)].ffn);
}

Division divide(int64_t size, int64_t leaf, const std::vector<double>& shares, int64_t rotation) {
  Division division{size, leaf, {}};
  division.runs = apportion(division.leaves(), shares, rotation);
  return division;
}

// The KV heads that a rank's query heads read.
Range kv_heads_of(const LayerSpec& numbers, const Division& heads, int rank) {
  const int64_t first = heads.begin(rank) / numbers.head_dim, last = heads.end(rank) / numbers.head_dim;
  if (first == last) return {};
  Range run{numbers.kv_heads, 0};
  for (int64_t head = first; head < last; ++head) {
    const int64_t read = key_head_of(numbers, head);
    run = {std::min(run.begin, read), std::max(run.end, read + 1)};
  }
  return run;
}

class Planner {
 public:
  Planner(const ModelSpec& spec, const PlanOptions& options) : spec_(spec) {
    plan_.options = options;
    shares_ = options.shares.empty() ? std::vector<double>(static_cast<size_t>(options.tp_size), 1.0) : options.shares;
  }

  ShardPlan make() {
    divide_dimensions();
    for (int64_t i = 0; i < static_cast<int64_t>(spec_.weights.size()); ++i) place_weight(i);
    list_sites();
    sum_ranks();
    return std::move(plan_);
  }

 private:
  int ranks() const { return plan_.options.tp_size; }

  void divide_dimensions() {
    const auto layers = static_cast<int64_t>(spec_.layers.size());
    for (int64_t i = 0; i < layers; ++i) {
      const LayerSpec& numbers = spec_.layers[static_cast<size_t>(i)];
      LayerPlan layer;
      const int64_t heads = numbers.heads * numbers.head_dim;
      // Layers that share keys and values divide their heads alike.
      const int64_t turn = numbers.kv_layer < 0 ? i : numbers.kv_layer;
      layer.heads = divide(heads, head_leaf(numbers), shares_, turn);
      // The feed-forward's spare units go where the attention's stopped.
      const int64_t spare = layer.heads.leaves() % ranks();
      layer.ffn = divide(numbers.ffn, ffn_leaf(spec_, i), shares_, i + spare);
      if (spec_.layer_input > 0) {
        const int64_t leaf = column_leaf(spec_, Role::LayerInputOutput, i, spec_.layer_input);
        layer.input = divide(spec_.layer_input, leaf, shares_, i + spare + layer.ffn.leaves() % ranks());
        layer.input_layout = tree_layout(layer.input.leaves(), layer.input.runs, plan_.options.every_leaf);
      }
      for (int r = 0; r < ranks(); ++r) layer.kv_heads.push_back(kv_heads_of(numbers, layer.heads, r));
      layer.heads_layout = tree_layout(layer.heads.leaves(), layer.heads.runs, plan_.options.every_leaf);
      layer.ffn_layout = tree_layout(layer.ffn.leaves(), layer.ffn.runs, plan_.options.every_leaf);
      plan_.layers.push_back(std::move(layer));
    }
    plan_.vocab = divide(spec_.vocab, 1, shares_, ranks() - 1);
    if (spec_.layer_input > 0) {
      plan_.layer_inputs = divide(layers * spec_.layer_input, spec_.layer_input, shares_, 0);
    }
  }

  bool divided(VocabMode mode) const { return mode == VocabMode::VocabParallel; }

  // A tied head and its embedding are one tensor: whole when either wants it whole.
  bool vocab_divided(Role role) const {
    const bool embedding = divided(plan_.options.embedding);
    const bool head = divided(plan_.options.lm_head);
    if (role == Role::LmHead) return head;
    return spec_.tied_head ? embedding && head : embedding;
  }

  void place_weight(int64_t index) {
    const WeightSpec& weight = spec_.weights[static_cast<size_t>(index)];
    TensorPlan tensor;
    tensor.weight = index;
    const LayerPlan* layer = weight.layer < 0 ? nullptr : &plan_.layers[static_cast<size_t>(weight.layer)];
    std::vector<Range> ranges;
    const auto each_rank = [&](auto range_of) {
      for (int r = 0; r < ranks(); ++r) ranges.push_back(range_of(r));
    };
    const auto runs_of = [&](const Division& division) {
      each_rank([&](int r) { return Range{division.begin(r), division.end(r)}; });
    };
    if (weight.out.axis == Axis::Vocab) {
      tensor.strategy = vocab_divided(weight.role) ? Strategy::VocabParallel : Strategy::Replicated;
      if (weight.role == Role::TokenEmbedding && divided(plan_.options.embedding)) tensor.comm = CommPattern::AllReduce;
      if (weight.role == Role::LmHead && divided(plan_.options.lm_head)) tensor.comm = CommPattern::Gather;
      if (tensor.strategy == Strategy::VocabParallel) {
        each_rank([&](int r) { return Range{plan_.vocab.begin(r), plan_.vocab.end(r)}; });
      }
    } else if (weight.out.axis == Axis::Heads || weight.out.axis == Axis::HeadScalars) {
      tensor.strategy = Strategy::ColumnParallel;
      const int64_t head_dim = spec_.layers[static_cast<size_t>(weight.layer)].head_dim;
      each_rank([&](int r) {
        return Range{layer->heads.begin(r) / head_dim * weight.out.unit,
                     layer->heads.end(r) / head_dim * weight.out.unit};
      });
    } else if (weight.out.axis == Axis::Ffn) {
      tensor.strategy = Strategy::ColumnParallel;
      runs_of(layer->ffn);
    } else if (weight.out.axis == Axis::KvHeads) {
      tensor.strategy = Strategy::ColumnParallel;
      each_rank([&](int r) {
        const Range& run = layer->kv_heads[static_cast<size_t>(r)];
        return Range{run.begin * weight.out.unit, run.end * weight.out.unit};
      });
    } else if (weight.in.axis == Axis::Heads || weight.in.axis == Axis::Ffn || weight.in.axis == Axis::LayerInput) {
      tensor.strategy = Strategy::RowParallel;
      tensor.by_columns = true;
      tensor.comm = CommPattern::AllReduce;
      runs_of(weight.in.axis == Axis::Heads ? layer->heads : weight.in.axis == Axis::Ffn ? layer->ffn : layer->input);
    } else if (weight.role == Role::LayerInputGate) {
      tensor.strategy = Strategy::ColumnParallel;
      runs_of(layer->input);
    } else if (weight.out.axis == Axis::LayerInputs || weight.in.axis == Axis::LayerInputs) {
      // Each rank has the outputs of its layers: of an embedding these are columns of what is stored.
      tensor.strategy = Strategy::ColumnParallel;
      tensor.by_columns = weight.in.axis == Axis::LayerInputs;
      if (weight.role == Role::LayerInputProjection) tensor.comm = CommPattern::AllGather;
      runs_of(plan_.layer_inputs);
    }
    if (tensor.strategy == Strategy::Replicated) each_rank([&](int) { return Range{0, weight.out.size()}; });
    if (ranks() == 1) tensor.comm = CommPattern::None;
    fill_slices(weight, ranges, tensor);
    plan_.tensors.push_back(std::move(tensor));
  }

  static void fill_slices(const WeightSpec& weight, const std::vector<Range>& ranges, TensorPlan& tensor) {
    const int64_t block = tensor.by_columns ? info(weight.dtype).block_elements : 1;
    const auto bytes_of = [&](int64_t begin, int64_t end) {
      const int64_t width = end - begin;
      if (held_as_floats(weight)) return width * weight.in.size() * static_cast<int64_t>(sizeof(float));
      return tensor.by_columns ? weight.out.size() * row_bytes(weight.dtype, width)
                               : width * row_bytes(weight.dtype, weight.in.size());
    };
    std::vector<int64_t> edges;
    for (const auto& [begin, end] : ranges) {
      Slice slice{begin, end, begin, end, 0};
      if (begin < end) {
        slice.stored_begin = begin / block * block;
        slice.stored_end = round_up(end, block);
        slice.bytes = bytes_of(slice.stored_begin, slice.stored_end);
        edges.insert(edges.end(), {slice.stored_begin, slice.stored_end});
      }
      tensor.slices.push_back(slice);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    tensor.shared_bytes.resize(ranges.size());
    for (size_t i = 0; i + 1 < edges.size(); ++i) {
      SharedRange range{edges[i], edges[i + 1], {}};
      for (size_t r = 0; r < ranges.size(); ++r) {
        const Slice& slice = tensor.slices[r];
        if (slice.stored_begin <= range.begin && range.end <= slice.stored_end)
          range.ranks.push_back(static_cast<int>(r));
      }
      if (range.ranks.size() < 2) continue;
      for (const int r : range.ranks) tensor.shared_bytes[static_cast<size_t>(r)] += bytes_of(range.begin, range.end);
      tensor.shared.push_back(std::move(range));
    }
  }

  void list_sites() {
    if (ranks() == 1) return;
    const int64_t width = spec_.hidden * 4;
    // A ring sends 2 (N-1)/N of the vector from each of N ranks, whatever their nodes.
    const bool ring = plan_.options.reduce == ReduceMode::Ring;
    const auto reduce = [&](int64_t layer, const char* name, int64_t nodes) {
      const int64_t vectors = ring ? 2 * (ranks() - 1) : nodes;
      plan_.sites.push_back({layer, name, CommPattern::AllReduce, vectors * width});
    };
    if (divided(plan_.options.embedding)) reduce(-1, site::kTokenEmbedding, ranks());
    if (spec_.layer_input > 0) {
      plan_.sites.push_back({-1, site::kLayerInputs, CommPattern::AllGather, plan_.layer_inputs.size * 4});
    }
    for (int64_t i = 0; i < static_cast<int64_t>(plan_.layers.size()); ++i) {
      const LayerPlan& layer = plan_.layers[static_cast<size_t>(i)];
      reduce(i, site::kAttnOutput, layer.heads_layout.total_nodes());
      reduce(i, site::kFfnDown, layer.ffn_layout.total_nodes());
      if (spec_.layer_input > 0) reduce(i, site::kLayerInput, layer.input_layout.total_nodes());
    }
    if (divided(plan_.options.lm_head))
      plan_.sites.push_back({-1, site::kLmHead, CommPattern::Gather, spec_.vocab * 4});
  }

  void sum_ranks() {
    plan_.ranks.resize(static_cast<size_t>(ranks()));
    for (size_t r = 0; r < plan_.ranks.size(); ++r) {
      RankPlan& rank = plan_.ranks[r];
      for (const TensorPlan& tensor : plan_.tensors) {
        rank.weight_bytes += tensor.slices[r].bytes;
        rank.replicated_bytes += tensor.shared_bytes[r];
      }
      for (size_t i = 0; i < plan_.layers.size(); ++i) {
        const LayerSpec& layer = spec_.layers[i];
        const int64_t kv_heads = plan_.layers[i].kv_heads[r].size();
        if (layer.kv_layer >= 0) continue;
        if (layer.mixer == Mixer::Attention) {
          rank.kv_values_per_token += 2 * kv_heads * layer.head_dim;
        } else {
          const int64_t values = plan_.layers[i].heads.here(static_cast<int>(r));
          rank.state_values += values * layer.key_dim + (layer.taps - 1) * (2 * kv_heads * layer.key_dim + values);
        }
      }
    }
  }

  const ModelSpec& spec_;
  std::vector<double> shares_;
  ShardPlan plan_;
};

}  // namespace

std::string_view name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::ColumnParallel:
      return "ColumnParallel";
    case Strategy::RowParallel:
      return "RowParallel";
    case Strategy::VocabParallel:
      return "VocabParallel";
    case Strategy::Replicated:
      return "Replicated";
  }
  return "";
}

std::string_view name_of(CommPattern pattern) {
  switch (pattern) {
    case CommPattern::None:
      return "None";
    case CommPattern::AllReduce:
      return "AllReduce";
    case CommPattern::AllGather:
      return "AllGather";
    case CommPattern::Gather:
      return "Gather";
  }
  return "";
}

int64_t largest_tp_size(const ModelSpec& spec) {
  int64_t most = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(spec.layers.size()); ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    most = std::max(
        {most, ceil_div(layer.heads * layer.head_dim, head_leaf(layer)), ceil_div(layer.ffn, ffn_leaf(spec, i))});
  }
  return most;
}

ShardPlan make_plan(const ModelSpec& spec, const PlanOptions& options) {
  const int64_t most = largest_tp_size(spec);
  if (options.tp_size < 1 || options.tp_size > most) {
    const LayerSpec& layer = spec.layers.front();
    fail(ErrorKind::DoesNotFit,
         "{}: --tp-size {} is not possible: the most divisible dimension has {} leaves ({} query heads; feed-forward "
         "{} in "
         "leaves of {}); sizes 1 to {} work, the nearest is {}",
         spec.file, options.tp_size, most, layer.heads, layer.ffn, ffn_leaf(spec, 0), most,
         std::clamp<int64_t>(options.tp_size, 1, most));
  }
  if (!options.shares.empty()) {
    double sum = 0;
    for (const double share : options.shares) {
      if (!std::isfinite(share) || share < 0) {
        fail(ErrorKind::Usage, "--tp-split has the share {}; shares are finite numbers that are not negative", share);
      }
      sum += share;
    }
    if (static_cast<int>(options.shares.size()) != options.tp_size || !(sum > 0)) {
      fail(ErrorKind::Usage,
           "--tp-split has {} shares with sum {}; it needs one share for each of the {} ranks, not all 0",
           options.shares.size(), sum, options.tp_size);
    }
  }
  return Planner(spec, options).make();
}

}  // namespace lockstep
