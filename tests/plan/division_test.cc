// Divided for real: for every family and format, what each rank holds is the model cut into pieces, and nothing heavy
// is on two ranks. Whatever several ranks may hold is listed here by role; a role on no list must be cut.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "plan/plan.h"
#include "support/family_names.h"

namespace lockstep {
namespace {

using enum Role;

// Vectors no longer than the residual stream or one head, which every rank needs whole: norms, the biases of
// row-parallel layers, the divisors of rotary frequencies, the number that scales a layer.
constexpr auto kOnEveryRank = std::to_array<Role>({
    RopeFactors,
    AttnNorm,
    AttnQNorm,
    AttnKNorm,
    AttnOutputBias,
    DeltaNorm,
    AttnPostNorm,
    FfnNorm,
    FfnDownBias,
    FfnPostNorm,
    LayerInputNorm,
    LayerScale,
    LayerInputProjectionNorm,
    OutputNorm,
});

// What belongs to a key or value head: on the ranks of the query (or value) heads that read it, and on no other.
// (Where value heads stand in tiles, also on those that read one before and one after it.)
constexpr auto kOfKvHeads = std::to_array<Role>({
    AttnK,
    AttnKBias,
    AttnV,
    AttnVBias,
    DeltaQ,
    DeltaK,
    DeltaConvQ,
    DeltaConvK,
});

// Matrices whose columns are cut between heads or layers, which may be inside a quantisation block: the block is then
// on both sides of the cut.
constexpr auto kCutInsideBlocks = std::to_array<Role>({
    AttnOutput,
    DeltaOutput,
    LayerInputEmbedding,
});

template <size_t N>
bool on(const std::array<Role, N>& list, Role role) {
  return std::find(list.begin(), list.end(), role) != list.end();
}

bool meet(const Slice& slice, int64_t begin, int64_t end) {
  return slice.begin < end && begin < slice.end;
}

// One weight of a plan, seen element by element along the side that is divided.
class Cut {
 public:
  Cut(const ModelSpec& spec, const ShardPlan& plan, const TensorPlan& tensor)
      : spec_(spec),
        plan_(plan),
        tensor_(tensor),
        weight_(spec.weights[static_cast<size_t>(tensor.weight)]),
        size_(tensor.by_columns ? weight_.in.size() : weight_.out.size()) {}

  const WeightSpec& weight() const { return weight_; }

  // Bytes of `elements` along the divided side, whole blocks.
  int64_t bytes(int64_t elements) const {
    if (held_as_floats(weight_)) return elements * weight_.in.size() * 4;
    return tensor_.by_columns ? weight_.out.size() * row_bytes(weight_.dtype, elements)
                              : elements * row_bytes(weight_.dtype, weight_.in.size());
  }
  int64_t whole() const { return bytes(size_); }

  void check_vector() const {
    ASSERT_EQ(weight_.in.axis, Axis::One);
    int64_t most = spec_.hidden;
    for (const LayerSpec& layer : spec_.layers) most = std::max(most, layer.head_dim);
    ASSERT_LE(size_, most);
  }

  void check_ranges() const {
    const int64_t block = tensor_.by_columns ? info(weight_.dtype).block_elements : 1;
    for (const Slice& slice : tensor_.slices) {
      ASSERT_LE(0, slice.begin);
      ASSERT_LE(slice.begin, slice.end);
      ASSERT_LE(slice.end, size_);
      ASSERT_EQ(slice.bytes, slice.begin == slice.end ? 0 : bytes(slice.stored_end - slice.stored_begin));
      if (slice.begin == slice.end) continue;
      ASSERT_TRUE(slice.stored_begin <= slice.begin && slice.begin < slice.stored_begin + block);
      ASSERT_TRUE(slice.stored_end - block < slice.end && slice.end <= slice.stored_end);
      if (on(kCutInsideBlocks, weight_.role)) continue;
      ASSERT_EQ(slice.stored_begin, slice.begin);
      ASSERT_EQ(slice.stored_end, slice.end);
    }
  }

  // Whether rank `rank` should have an element, where it is no matter of one rank alone.
  bool should_have(size_t rank, int64_t element) const {
    return on(kOnEveryRank, weight_.role) || reads(rank, element / weight_.out.unit);
  }

  // That exactly the ranks that should have an element have it.
  void check_owners() const {
    const bool listed = on(kOnEveryRank, weight_.role) || on(kOfKvHeads, weight_.role);
    for (int64_t e = 0; e < size_; ++e) {
      int owners = 0;
      for (size_t r = 0; r < tensor_.slices.size(); ++r) {
        const bool has = meet(tensor_.slices[r], e, e + 1);
        owners += has;
        if (listed) {
          ASSERT_EQ(has, should_have(r, e)) << "element " << e << ", rank " << r;
        }
      }
      if (listed) {
        ASSERT_GE(owners, 1) << "element " << e;
      } else {
        ASSERT_EQ(owners, 1) << "element " << e;
      }
    }
  }

  // Bytes of a rank that another has too, counted anew.
  int64_t shared(size_t rank) const {
    int64_t count = 0;
    for (int64_t e = tensor_.slices[rank].stored_begin; e < tensor_.slices[rank].stored_end; ++e) {
      const auto stores = [e](const Slice& slice) { return slice.stored_begin <= e && e < slice.stored_end; };
      count += std::count_if(tensor_.slices.begin(), tensor_.slices.end(), stores) > 1;
    }
    return bytes(count);
  }

  // Bytes of the smallest piece by which a rank may have more than another.
  int64_t unit() const {
    if (on(kOnEveryRank, weight_.role)) return 0;
    const LayerPlan* layer = weight_.layer < 0 ? nullptr : &plan_.layers[static_cast<size_t>(weight_.layer)];
    const int64_t block = tensor_.by_columns ? info(weight_.dtype).block_elements : 1;
    const auto of = [&](const Division& division) { return bytes(ceil_to(division.leaf, block)); };
    switch (weight_.out.axis) {
      case Axis::Vocab:
        return bytes(1);
      case Axis::Ffn:
        return of(layer->ffn);
      case Axis::LayerInput:
        return of(layer->input);
      case Axis::LayerInputs:
        return of(plan_.layer_inputs);
      case Axis::Heads:
      case Axis::KvHeads:
      case Axis::HeadScalars: {  // a leaf of 64 heads or fewer is one head
        EXPECT_LE(spec_.layers[static_cast<size_t>(weight_.layer)].heads, 64);
        return bytes(weight_.out.unit);
      }
      default:
        break;
    }
    switch (weight_.in.axis) {
      case Axis::Heads:
        return of(layer->heads);
      case Axis::Ffn:
        return of(layer->ffn);
      case Axis::LayerInput:
        return of(layer->input);
      case Axis::LayerInputs:
        return of(plan_.layer_inputs);
      default:
        ADD_FAILURE() << "nobody knows what this is divided by";
        return 0;
    }
  }

 private:
  static int64_t ceil_to(int64_t elements, int64_t block) { return (elements + block - 1) / block * block; }

  // Whether the rank's query heads read this KV head, or one before and one after it: a rank's are a run.
  bool reads(size_t rank, int64_t kv_head) const {
    const LayerSpec& layer = spec_.layers[static_cast<size_t>(weight_.layer)];
    const Role role = layer.mixer == Mixer::Attention ? AttnQ : DeltaV;
    const WeightSpec* queries = spec_.find(role, weight_.layer);
    const auto& slices = plan_.tensors[static_cast<size_t>(queries - spec_.weights.data())].slices;
    bool before = false, after = false;
    for (int64_t head = 0; head < layer.heads; ++head) {
      if (!meet(slices[rank], head * queries->out.unit, (head + 1) * queries->out.unit)) continue;
      before |= key_head_of(layer, head) <= kv_head;
      after |= key_head_of(layer, head) >= kv_head;
    }
    return before && after;
  }

  const ModelSpec& spec_;
  const ShardPlan& plan_;
  const TensorPlan& tensor_;
  const WeightSpec& weight_;
  int64_t size_;
};

class DividedFamily : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Checkpoint> checkpoint =
      Checkpoint::open(family_model_path(std::filesystem::path(LOCKSTEP_FIXTURES "/families") / GetParam()));
  ModelSpec spec = read_model(*checkpoint);

  // Sizes of the group that the model allows, of those that people run.
  std::vector<int> sizes() const {
    std::vector<int> found;
    for (const int size : {2, 3, 4, 8}) {
      if (size <= largest_tp_size(spec)) found.push_back(size);
    }
    return found;
  }
};

TEST_P(DividedFamily, HoldsNothingTwiceButWhatIsListed) {
  ASSERT_GE(sizes().size(), 2U);
  for (const int size : sizes()) {
    for (const auto& shares : {std::vector<double>{}, std::vector<double>(static_cast<size_t>(size), 1.0)}) {
      PlanOptions options{.tp_size = size, .shares = shares};
      if (!shares.empty()) options.shares.front() = 3;
      const ShardPlan plan = make_plan(spec, options);
      for (const TensorPlan& tensor : plan.tensors) {
        const Cut cut(spec, plan, tensor);
        SCOPED_TRACE(fmt::format("{} at {} ranks{}", cut.weight().name, size, shares.empty() ? "" : ", shares 3, 1"));
        if (on(kOnEveryRank, cut.weight().role)) {
          ASSERT_NO_FATAL_FAILURE(cut.check_vector());
        }
        ASSERT_NO_FATAL_FAILURE(cut.check_ranges());
        ASSERT_NO_FATAL_FAILURE(cut.check_owners());
        for (size_t r = 0; r < tensor.slices.size(); ++r) ASSERT_EQ(tensor.shared_bytes[r], cut.shared(r)) << r;
      }
    }
  }
}

// A rank gets at most ceil(units / N) of a dimension's units. The last unit of a dimension may be short, so the units
// weigh at most the whole and one unit; hence whole / N and one unit is the most a rank can have of a matrix by itself.
TEST_P(DividedFamily, IsAFairShareAndWhatIsListed) {
  int64_t total = 0, alone = 0;
  const ShardPlan one_rank = make_plan(spec, {});
  for (const TensorPlan& tensor : one_rank.tensors) {
    total += Cut(spec, one_rank, tensor).whole();
    alone += tensor.slices[0].bytes;
  }
  EXPECT_EQ(alone, total);
  EXPECT_EQ(one_rank.ranks[0].weight_bytes, total);
  EXPECT_EQ(one_rank.ranks[0].replicated_bytes, 0);
  for (const int size : sizes()) {
    const ShardPlan plan = make_plan(spec, {.tp_size = size});
    for (size_t r = 0; r < plan.ranks.size(); ++r) {
      int64_t held = 0, listed = 0, units = 0;
      for (const TensorPlan& tensor : plan.tensors) {
        const Cut cut(spec, plan, tensor);
        const int64_t shared = cut.shared(r);
        EXPECT_LE((tensor.slices[r].bytes - shared) * size, cut.whole() + cut.unit() * size)
            << cut.weight().name << ", rank " << r << " of " << size;
        held += tensor.slices[r].bytes;
        listed += shared;
        units += cut.unit();
      }
      EXPECT_EQ(plan.ranks[r].weight_bytes, held);
      EXPECT_EQ(plan.ranks[r].replicated_bytes, listed);
      EXPECT_LE(held * size, total + (listed + units) * size) << "rank " << r << " of " << size;
      RecordProperty(fmt::format("rank_{}_of_{}", r, size),
                     fmt::format("{} of {} bytes, {} of them on other ranks too", held, total, listed));
    }
  }
}

// A layer that borrows keys and values finds what its query heads read on its own rank.
TEST_P(DividedFamily, BorrowedKvHeadsAreWhereTheyAreRead) {
  for (const int size : sizes()) {
    const ShardPlan plan = make_plan(spec, {.tp_size = size});
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      if (spec.layers[i].kv_layer < 0) continue;
      EXPECT_EQ(plan.layers[i].kv_heads, plan.layers[static_cast<size_t>(spec.layers[i].kv_layer)].kv_heads)
          << "layer " << i << " at " << size << " ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DividedFamily, testing::ValuesIn(family_model_names()),
                         [](const auto& name) { return family_test_name(name.param); });

}  // namespace
}  // namespace lockstep
