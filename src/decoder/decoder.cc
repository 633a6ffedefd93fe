// The forward pass of one rank.
#include "decoder/decoder.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/checked.h"
#include "base/error.h"
#include "decoder/attention.h"
#include "decoder/gated_delta.h"
#include "decoder/layer_inputs.h"
#include "decoder/products.h"
#include "decoder/weights.h"
#include "kernels/kernels.h"

namespace lockstep {
namespace {

constexpr int64_t kLogitRows = 16;  // rows whose logits are projected and gathered at once

// How this rank joins the leaves of its runs: [layers] each.
struct Joins {
  std::vector<JoinProgram> heads, ffn, input;
};

// What surrounds a row-parallel product.
struct RowParallel {
  Role role;
  std::optional<Role> bias;
  Role post_norm;
  const char* site;
  ZoneName zone;
  Division LayerPlan::*division;
  TreeLayout LayerPlan::*layout;
  std::vector<JoinProgram> Joins::*joins;
};
constexpr RowParallel kAttnOutput{Role::AttnOutput,         Role::AttnOutputBias, Role::AttnPostNorm,
                                  site::kAttnOutput,        ZoneName::AttnOutput, &LayerPlan::heads,
                                  &LayerPlan::heads_layout, &Joins::heads};
constexpr RowParallel kDeltaOutput{Role::DeltaOutput,    std::nullopt,      Role::AttnPostNorm,       site::kAttnOutput,
                                   ZoneName::AttnOutput, &LayerPlan::heads, &LayerPlan::heads_layout, &Joins::heads};
constexpr RowParallel kFfnDown{Role::FfnDown,  Role::FfnDownBias, Role::FfnPostNorm,      site::kFfnDown,
                               ZoneName::Down, &LayerPlan::ffn,   &LayerPlan::ffn_layout, &Joins::ffn};
constexpr RowParallel kLayerInput{Role::LayerInputOutput,   std::nullopt,         Role::LayerInputNorm,
                                  site::kLayerInput,        ZoneName::LayerInput, &LayerPlan::input,
                                  &LayerPlan::input_layout, &Joins::input};

}  // namespace

struct Decoder::Impl {
  Impl(const ModelSpec& spec_in, const ShardPlan& plan_in, const Checkpoint& checkpoint, Group& group_in, Team& team_in,
       const DecoderOptions& options_in, std::atomic<int64_t>* loaded_bytes)
      : spec(spec_in),
        plan(plan_in),
        group(group_in),
        team(team_in),
        options(options_in),
        rank(group_in.rank()),
        weights(spec_in, plan_in, rank, checkpoint, kernels, group_in, team_in, loaded_bytes),
        products(kernels, group_in, team_in),
        attention(context),
        gated_delta(context),
        layer_inputs(context),
        per_rank(one_leaf_per_rank(plan_in.tp_size())) {
    prepare_joins();
    allocate();
  }

  // ---- preparation: everything that forward() would otherwise allocate or compute again ----

  void prepare_joins() {
    for (const LayerPlan& layer : plan.layers) {
      const auto r = static_cast<size_t>(rank);
      const bool each = plan.options.every_leaf;
      joins.heads.push_back(join_leaves(layer.heads.leaves(), layer.heads.runs[r], each));
      joins.ffn.push_back(join_leaves(layer.ffn.leaves(), layer.ffn.runs[r], each));
      if (spec.layer_input > 0) joins.input.push_back(join_leaves(layer.input.leaves(), layer.input.runs[r], each));
    }
  }

  void allocate() {
    int64_t heads = 0, ffn = 0, planes = 1;
    for (size_t i = 0; i < plan.layers.size(); ++i) {
      const LayerPlan& layer = plan.layers[i];
      heads = std::max(heads, layer.heads.here(rank));
      ffn = std::max(ffn, layer.ffn.here(rank));
      planes = std::max({planes, joins.heads[i].depth, joins.ffn[i].depth});
      if (spec.layer_input == 0) continue;
      ffn = std::max(ffn, layer.input.here(rank));
      planes = std::max(planes, joins.input[i].depth);
    }
    const auto rows = [&](int64_t width) {
      return AlignedBuffer<float>(static_cast<size_t>(options.max_rows * width));
    };
    residual = rows(spec.hidden);
    normed = rows(spec.hidden);
    joined = rows(spec.hidden);
    mixed = rows(heads);
    gate = rows(ffn);
    up = rows(ffn);
    nodes = rows(planes * spec.hidden);
    logits_here = AlignedBuffer<float>(static_cast<size_t>(kLogitRows * (head_end() - head_begin())));
    if (rank == 0) {
      gathered = AlignedBuffer<float>(static_cast<size_t>(kLogitRows * spec.vocab));
      logits = AlignedBuffer<float>(static_cast<size_t>(kLogitRows * spec.vocab));
    }
    gather_counts.resize(static_cast<size_t>(plan.tp_size()));
  }

  // ---- the pieces of a step ----

  // A column-parallel product of rows of the residual width: this rank's outputs, [rows, weight rows].
  Product column_parallel(Role role, Role bias, int64_t layer, float* out) const {
    return products.column_parallel(weights.get(role, layer), out, weights.get(bias, layer).vector);
  }

  // The only caller of all-reduces in a layer: joins every rank's nodes into `joined`, [rows, hidden].
  void run_site(CommSite site, const TreeLayout& layout, int64_t rows) {
    group.at(site);
    const auto count = static_cast<size_t>(rows * spec.hidden);
    const auto own = static_cast<size_t>(layout.nodes_of_rank[static_cast<size_t>(rank)]);
    if (plan.options.reduce == ReduceMode::Tree) {
      group.all_reduce(layout, {nodes.data(), own * count}, {joined.data(), count});
      return;
    }
    if (own == 0) std::fill_n(nodes.data(), count, 0.0F);
    for (size_t node = 1; node < own; ++node)
      kernels.add(nodes.data(), nodes.data() + node * count, static_cast<int64_t>(count));
    group.all_reduce_ring({nodes.data(), count});
    std::memcpy(joined.data(), nodes.data(), count * sizeof(float));
  }

  // x: [rows, what this rank has of the divided width]. The product, joined over the ranks, plus its bias (once),
  // normed if the model says so, is added to the residual stream.
  void row_parallel(const RowParallel& which, int64_t layer, const float* x, int64_t rows) {
    const Zone zone(options.lane, which.zone, layer);
    const Weight& weight = weights.get(which.role, layer);
    const LayerPlan& layer_plan = plan.layers[static_cast<size_t>(layer)];
    const Division& division = layer_plan.*which.division;
    const JoinProgram& join = (joins.*which.joins)[static_cast<size_t>(layer)];
    if (weight.matrix.rows > 0) {
      products.run(x, division.here(rank), rows, {{&weight, {division.leaf, &join}, nodes.data()}});
    }
    if (ulp_fault_now && which.zone == ZoneName::AttnOutput && layer + 1 == static_cast<int64_t>(spec.layers.size())) {
      for (float& node : nodes.span().first(static_cast<size_t>(join.results * rows * spec.hidden))) {
        node = std::nextafter(node, INFINITY);
      }
    }
    if (context.recording()) {
      const std::string_view name = context.name_of(weight);
      for (int64_t node = 0; node < join.results; ++node) {
        context.record(now, layer, name, division.runs[static_cast<size_t>(rank)].begin + node,
                       nodes.data() + node * rows * spec.hidden, spec.hidden, spec.hidden);
      }
    }
    run_site({static_cast<int32_t>(layer), which.site}, layer_plan.*which.layout, rows);
    const float* bias = which.bias ? weights.get(*which.bias, layer).vector : nullptr;
    if (bias != nullptr) products.add_bias(joined.data(), rows, spec.hidden, bias);
    if (weights.get(which.post_norm, layer).vector != nullptr) {
      norm(which.post_norm, layer, joined.data(), joined.data(), rows);
    }
    if (spec.residual_scale != 1) kernels.scale(joined.data(), spec.residual_scale, rows * spec.hidden);
    kernels.add(residual.data(), joined.data(), rows * spec.hidden);
    group.tick();
  }

  void embed(const Batch& batch) {
    const Zone zone(options.lane, ZoneName::Embed);
    const auto rows = static_cast<int64_t>(batch.tokens.size());
    const Weight& embedding = weights.get(Role::TokenEmbedding);
    const bool divided = plan.options.embedding == VocabMode::VocabParallel;
    const Slice& held = embedding.plan->slices[static_cast<size_t>(rank)];
    const int64_t begin = divided ? plan.vocab.begin(rank) : 0;
    const int64_t end = divided ? plan.vocab.end(rank) : spec.vocab;
    float* out = divided ? nodes.data() : residual.data();
    for (int64_t row = 0; row < rows; ++row) {
      float* to = out + row * spec.hidden;
      const int64_t token = batch.tokens[static_cast<size_t>(row)];
      if (token < begin || token >= end) {
        std::fill_n(to, spec.hidden, 0.0F);
        continue;
      }
      const std::byte* from = embedding.matrix.data + (token - held.begin) * embedding.matrix.row_bytes;
      kernels.dequantize(embedding.matrix.dtype, from, 0, spec.hidden, to);
      // A zero that the other ranks' zeros are added to loses its sign; it loses it at every size.
      for (int64_t i = 0; i < spec.hidden; ++i) to[i] += 0.0F;
    }
    if (divided) {
      run_site({-1, site::kTokenEmbedding}, per_rank, rows);
      std::memcpy(residual.data(), joined.data(), static_cast<size_t>(rows * spec.hidden) * sizeof(float));
    }
    if (spec.embedding_scale != 1) kernels.scale(residual.data(), spec.embedding_scale, rows * spec.hidden);
    context.record(now, -1, context.name_of(embedding), 0, residual.data(), spec.hidden, spec.hidden);
  }

  // What mixes positions, its output joined over the ranks.
  void mix(const Batch& batch, int64_t layer) {
    const bool attends = spec.layers[static_cast<size_t>(layer)].mixer == Mixer::Attention;
    if (attends) {
      attention.run(layer, batch, normed.data(), products, mixed.data());
    } else {
      const Zone zone(options.lane, ZoneName::Recur, layer);
      gated_delta.run(layer, batch, normed.data(), products, mixed.data());
    }
    row_parallel(attends ? kAttnOutput : kDeltaOutput, layer, mixed.data(), static_cast<int64_t>(batch.tokens.size()));
  }

  void feed_forward(int64_t layer, int64_t rows) {
    const Division& ffn = plan.layers[static_cast<size_t>(layer)].ffn;
    const int64_t width = ffn.here(rank);
    if (width > 0) {
      Zone gate_up(options.lane, ZoneName::GateUp, layer);
      products.run(normed.data(), spec.hidden, rows,
                   {column_parallel(Role::FfnGate, Role::FfnGateBias, layer, gate.data()),
                    column_parallel(Role::FfnUp, Role::FfnUpBias, layer, up.data())});
      gate_up.end();
      const Zone zone(options.lane, ZoneName::Activation, layer);
      const auto activate =
          spec.layers[static_cast<size_t>(layer)].activation == Activation::Silu ? kernels.silu_mul : kernels.gelu_mul;
      team.split(rows * width, 1024, [&](int64_t begin, int64_t end, int) {
        activate(gate.data() + begin, up.data() + begin, gate.data() + begin, end - begin);
        group.tick();
      });
      if (context.recording()) {
        const std::string_view name = context.name_of(weights.get(Role::FfnUp, layer));
        const Range& run = ffn.runs[static_cast<size_t>(rank)];
        for (int64_t leaf = run.begin; leaf < run.end; ++leaf) {
          const int64_t begin = leaf * ffn.leaf - ffn.begin(rank);
          context.record(now, layer, name, leaf, gate.data() + begin, width, std::min(ffn.leaf, width - begin));
        }
      }
    }
    row_parallel(kFfnDown, layer, gate.data(), rows);
  }

  // What the layer takes for itself, gated by the residual stream.
  void take_layer_input(int64_t layer, int64_t rows) {
    const Division& division = plan.layers[static_cast<size_t>(layer)].input;
    const int64_t width = division.here(rank);
    if (width > 0) {
      products.run(residual.data(), spec.hidden, rows,
                   {products.column_parallel(weights.get(Role::LayerInputGate, layer), gate.data())});
      team.split(rows, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          float* x = gate.data() + row * width;
          kernels.gelu_mul(x, layer_inputs.of(layer, row) + division.begin(rank), x, width);
        }
        group.tick();
      });
    }
    row_parallel(kLayerInput, layer, gate.data(), rows);
  }

  // in, out: [rows, hidden], which may be the same.
  void norm(Role role, int64_t layer, const float* in, float* out, int64_t rows) {
    const Zone zone(options.lane, ZoneName::Norm, layer);
    const float* weight = weights.get(role, layer).vector;
    team.split(rows, 1, [&](int64_t begin, int64_t end, int) {
      kernels.rms_norm(in + begin * spec.hidden, weight, out + begin * spec.hidden, end - begin, spec.hidden,
                       spec.norm_eps);
      group.tick();
    });
  }

  const Weight& weights_of_head() const { return weights.get(spec.tied_head ? Role::TokenEmbedding : Role::LmHead); }
  bool head_divided() const { return plan.options.lm_head == VocabMode::VocabParallel; }
  int64_t head_begin() const { return head_divided() ? plan.vocab.begin(rank) : 0; }
  int64_t head_end() const {
    if (head_divided()) return plan.vocab.end(rank);
    return rank == 0 ? spec.vocab : 0;
  }

  // The rows of the head that this rank multiplies with. A whole head everybody holds, but the logits go to rank 0, so
  // it alone multiplies.
  Weight head_slice() const {
    const Weight& held = weights_of_head();
    Weight slice;
    slice.matrix = held.matrix;
    slice.matrix.rows = head_end() - head_begin();
    const int64_t skip = head_begin() - held.plan->slices[static_cast<size_t>(rank)].begin;
    if (slice.matrix.rows > 0) slice.matrix.data += skip * held.matrix.row_bytes;
    return slice;
  }

  void project_logits(const Batch& batch, const LogitSink& sink) {
    const Zone zone(options.lane, ZoneName::Logits);
    const Weight head = head_slice();
    const int64_t vocab_here = head.matrix.rows;
    const auto wanted = static_cast<int64_t>(batch.logit_rows.size());
    for (int64_t first = 0; first < wanted; first += kLogitRows) {
      const int64_t count = std::min(kLogitRows, wanted - first);
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(joined.data() + i * spec.hidden,
                    residual.data() + batch.logit_rows[static_cast<size_t>(first + i)] * spec.hidden,
                    static_cast<size_t>(spec.hidden) * sizeof(float));
      }
      norm(Role::OutputNorm, -1, joined.data(), normed.data(), count);
      float* result = logits_here.data();
      if (head_divided()) {
        if (vocab_here > 0)
          products.run(normed.data(), spec.hidden, count, {products.column_parallel(head, logits_here.data())});
        for (int r = 0; r < plan.tp_size(); ++r) {
          gather_counts[static_cast<size_t>(r)] = static_cast<size_t>(count * plan.vocab.here(r));
        }
        group.at({-1, site::kLmHead});
        const size_t all = rank == 0 ? static_cast<size_t>(count * spec.vocab) : 0;
        group.gather({logits_here.data(), static_cast<size_t>(count * vocab_here)}, gather_counts,
                     {gathered.data(), all}, 0);
        if (rank == 0) result = unmix(count);
      } else if (vocab_here > 0) {
        products.run(normed.data(), spec.hidden, count, {products.column_parallel(head, logits_here.data())});
      }
      if (rank != 0 || !sink) continue;
      if (spec.logit_scale != 1) kernels.scale(result, spec.logit_scale, count * spec.vocab);
      if (spec.logit_cap != 0) kernels.soft_cap(result, spec.logit_cap, count * spec.vocab);
      sink(first, count, result);
    }
  }

  // gathered is [rank][row][its vocabulary rows]; logits become [row][vocab].
  float* unmix(int64_t count) {
    const float* from = gathered.data();
    for (int r = 0; r < plan.tp_size(); ++r) {
      const int64_t width = plan.vocab.here(r);
      for (int64_t row = 0; row < count; ++row, from += width) {
        std::memcpy(logits.data() + row * spec.vocab + plan.vocab.begin(r), from,
                    static_cast<size_t>(width) * sizeof(float));
      }
    }
    return logits.data();
  }

  // ---- the step ----

  void forward(const Batch& batch, int64_t step, const LogitSink& sink) {
    const auto rows = static_cast<int64_t>(batch.tokens.size());
    assert(rows > 0 && rows <= options.max_rows);
    now = batch;
    ulp_fault_now = options.fault && options.fault->kind == Fault::Kind::Ulp && options.fault->step == step;
    embed(batch);
    if (layer_inputs.any()) layer_inputs.prepare(batch, residual.data(), products);
    attention.begin_step(batch);
    for (int64_t layer = 0; layer < static_cast<int64_t>(spec.layers.size()); ++layer) {
      norm(Role::AttnNorm, layer, residual.data(), normed.data(), rows);
      mix(batch, layer);
      norm(Role::FfnNorm, layer, residual.data(), normed.data(), rows);
      feed_forward(layer, rows);
      if (layer_inputs.any()) take_layer_input(layer, rows);
      if (const float* scale = weights.get(Role::LayerScale, layer).vector) {
        kernels.scale(residual.data(), *scale, rows * spec.hidden);
      }
    }
    project_logits(batch, sink);
    group.at({});
  }

  const ModelSpec& spec;
  const ShardPlan& plan;
  const Kernels& kernels = select_kernels();
  Group& group;
  Team& team;
  const DecoderOptions options;
  const int rank;
  const Weights weights;
  Products products;
  const RankContext context{spec, plan, kernels, group, team, options, rank, weights};
  Attention attention;
  GatedDelta gated_delta;
  LayerInputs layer_inputs;
  const TreeLayout per_rank;
  Joins joins;
  Batch now;  // the step under way
  bool ulp_fault_now = false;

  AlignedBuffer<float> residual, normed, joined;  // [max_rows, hidden]
  AlignedBuffer<float> mixed;                     // [max_rows, heads_here * head_dim]
  AlignedBuffer<float> gate, up;                  // [max_rows, ffn_here]
  AlignedBuffer<float> nodes;                     // [depth, max_rows, hidden]
  AlignedBuffer<float> logits_here;               // [kLogitRows, vocab_here]
  AlignedBuffer<float> gathered, logits;          // [kLogitRows, vocab], rank 0
  std::vector<size_t> gather_counts;              // [ranks]
};

std::string_view selected_isa() {
  return select_kernels().isa;
}

Decoder::Decoder(const ModelSpec& spec, const ShardPlan& plan, const Checkpoint& checkpoint, Group& group, Team& team,
                 const DecoderOptions& options, std::atomic<int64_t>* loaded_bytes)
    : impl_(std::make_unique<Impl>(spec, plan, checkpoint, group, team, options, loaded_bytes)) {}

Decoder::~Decoder() = default;

void Decoder::set_page(int64_t sequence, int64_t index, int32_t page) {
  impl_->attention.cache().set_page(sequence, index, page);
}

void Decoder::forward(const Batch& batch, int64_t step, const LogitSink& sink) {
  impl_->forward(batch, step, sink);
}

int64_t Decoder::weight_bytes() const {
  return impl_->weights.bytes();
}
int64_t Decoder::read_bytes() const {
  return impl_->weights.read_bytes();
}
int64_t Decoder::kv_bytes() const {
  return impl_->attention.cache().bytes() + impl_->gated_delta.bytes();
}

int64_t Decoder::weight_bytes_per_token() const {
  const Weight& embedding = impl_->weights.get(Role::TokenEmbedding);
  int64_t bytes = impl_->weights.bytes();
  if (!impl_->spec.tied_head) bytes -= static_cast<int64_t>(embedding.bytes.bytes());  // a lookup reads one row
  if (!impl_->head_divided() && impl_->rank != 0) {
    bytes -= static_cast<int64_t>(impl_->weights_of_head().bytes.bytes());
  }
  return bytes;
}

}  // namespace lockstep
