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
#include "decoder/kv_cache.h"
#include "decoder/rope_angles.h"
#include "decoder/weights.h"
#include "kernels/kernels.h"

namespace lockstep {
namespace {

constexpr int64_t kLogitRows = 16;  // rows whose logits are projected and gathered at once
constexpr int64_t kTileRows = 256;  // a work item of a product: kTileCols output columns of at most this many rows

// A product of the batch with one weight, and the bias of a column-parallel one. `out` is [depth, rows, weight rows].
struct Product {
  const Weight* weight;
  LeafSum leaves;
  float* out;
  const float* bias = nullptr;
};

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
        cache(spec_in, plan_in, rank, options_in),
        angles(spec_in, weights.get(Role::RopeFactors).vector, options_in.max_rows),
        per_rank(one_leaf_per_rank(plan_in.tp_size())) {
    prepare_joins();
    allocate();
  }

  // ---- preparation: everything that forward() would otherwise allocate or compute again ----

  void prepare_joins() {
    for (const LayerPlan& layer : plan.layers) {
      const auto r = static_cast<size_t>(rank);
      const bool each = plan.options.every_leaf;
      head_joins.push_back(join_leaves(layer.heads.leaves(), layer.heads.runs[r], each));
      ffn_joins.push_back(join_leaves(layer.ffn.leaves(), layer.ffn.runs[r], each));
    }
  }

  void allocate() {
    int64_t heads = 0, kv = 0, ffn = 0, planes = 1;
    for (size_t i = 0; i < plan.layers.size(); ++i) {
      const LayerPlan& layer = plan.layers[i];
      const int64_t head_dim = spec.layers[i].head_dim;
      heads = std::max(heads, layer.heads.here(rank));
      kv = std::max(kv, layer.kv_heads[static_cast<size_t>(rank)].size() * head_dim);
      ffn = std::max(ffn, layer.ffn.here(rank));
      planes = std::max({planes, head_joins[i].depth, ffn_joins[i].depth});
    }
    const auto rows = [&](int64_t width) {
      return AlignedBuffer<float>(static_cast<size_t>(options.max_rows * width));
    };
    residual = rows(spec.hidden);
    normed = rows(spec.hidden);
    joined = rows(spec.hidden);
    query = rows(heads);
    key = rows(kv);
    value = rows(kv);
    attended = rows(heads);
    gate = rows(ffn);
    up = rows(ffn);
    nodes = rows(planes * spec.hidden);
    logits_here = AlignedBuffer<float>(static_cast<size_t>(kLogitRows * (head_end() - head_begin())));
    if (rank == 0) {
      gathered = AlignedBuffer<float>(static_cast<size_t>(kLogitRows * spec.vocab));
      logits = AlignedBuffer<float>(static_cast<size_t>(kLogitRows * spec.vocab));
    }
    gather_counts.resize(static_cast<size_t>(plan.tp_size()));
    const int64_t scores = options.pages_per_sequence * options.page_tokens;
    for (int t = 0; t < team.threads(); ++t) {
      product_scratch.emplace_back(size_t{kMatmulScratch});
      score_scratch.emplace_back(static_cast<size_t>(scores));
    }
  }

  // ---- the pieces of a step ----

  // Runs products of the same input rows, each thread taking its share of every product's columns.
  void multiply(const float* x, int64_t ldx, int64_t rows, std::initializer_list<Product> products) {
    team.run([&](int thread) {
      for (const Product& product : products) {
        const WeightMatrix& w = product.weight->matrix;
        const Team::Part mine = team.part(w.rows, kTileCols, thread);
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
            args.scratch = product_scratch[static_cast<size_t>(thread)].data();
            kernels.matmul(args);
            group.tick();
          }
        }
      }
    });
    for (const Product& product : products) {
      if (product.bias != nullptr) add_bias(product.out, rows, product.weight->matrix.rows, product.bias);
    }
  }

  LeafSum whole(int64_t cols) const { return {cols, &single_leaf}; }

  // A column-parallel product of rows of the residual width: this rank's outputs, [rows, weight rows].
  Product column_parallel(Role role, Role bias, int64_t layer, float* out) const {
    return {&weights.get(role, layer), whole(spec.hidden), out, weights.get(bias, layer).vector};
  }

  void add_bias(float* out, int64_t rows, int64_t width, const float* bias) {
    for (int64_t row = 0; row < rows; ++row) kernels.add(out + row * width, bias, width);
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

  // A row-parallel product, joined over the ranks, plus its bias (once) added to the residual stream.
  void row_parallel(const float* x, int64_t ldx, int64_t rows, Role role, Role bias_role, int64_t layer,
                    const char* site) {
    const Weight& weight = weights.get(role, layer);
    const LayerPlan& layer_plan = plan.layers[static_cast<size_t>(layer)];
    const bool attention = role == Role::AttnOutput;
    const JoinProgram& join = (attention ? head_joins : ffn_joins)[static_cast<size_t>(layer)];
    const TreeLayout& layout = attention ? layer_plan.heads_layout : layer_plan.ffn_layout;
    const Zone zone(options.lane, attention ? ZoneName::AttnOutput : ZoneName::Down, layer);
    const Division& division = attention ? layer_plan.heads : layer_plan.ffn;
    if (weight.matrix.rows > 0) multiply(x, ldx, rows, {{&weight, {division.leaf, &join}, nodes.data()}});
    if (ulp_fault_now && attention && layer + 1 == static_cast<int64_t>(spec.layers.size())) {
      for (float& node : nodes.span().first(static_cast<size_t>(join.results * rows * spec.hidden))) {
        node = std::nextafter(node, INFINITY);
      }
    }
    if (recording()) {
      const std::string_view name = name_of(weight);
      for (int64_t node = 0; node < join.results; ++node) {
        record(layer, name, division.runs[static_cast<size_t>(rank)].begin + node,
               nodes.data() + node * rows * spec.hidden, spec.hidden, spec.hidden);
      }
    }
    run_site({static_cast<int32_t>(layer), site}, layout, rows);
    const float* bias = weights.get(bias_role, layer).vector;
    if (bias != nullptr) add_bias(joined.data(), rows, spec.hidden, bias);
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
    record(-1, name_of(embedding), 0, residual.data(), spec.hidden, spec.hidden);
  }

  void attend(const Batch& batch, int64_t layer) {
    const auto rows = static_cast<int64_t>(batch.tokens.size());
    const LayerSpec& numbers = spec.layers[static_cast<size_t>(layer)];
    const LayerPlan& layer_plan = plan.layers[static_cast<size_t>(layer)];
    const int64_t head_dim = numbers.head_dim;
    const int64_t first_head = layer_plan.heads.begin(rank) / head_dim;
    const int64_t heads = layer_plan.heads.here(rank) / head_dim;
    const Range kv_run = layer_plan.kv_heads[static_cast<size_t>(rank)];
    const int64_t kv_heads = kv_run.size();
    if (heads > 0) {
      Zone qkv(options.lane, ZoneName::Qkv, layer);
      multiply(normed.data(), spec.hidden, rows,
               {column_parallel(Role::AttnQ, Role::AttnQBias, layer, query.data()),
                column_parallel(Role::AttnK, Role::AttnKBias, layer, key.data()),
                column_parallel(Role::AttnV, Role::AttnVBias, layer, value.data())});
      qkv.end();
      const RopePairs pairs = numbers.rope.pairs == RopeSpec::Pairs::Adjacent ? RopePairs::Adjacent : RopePairs::Halves;
      // Rotate, and append to the cache. Rows of one sequence go to different slots.
      Zone rope_append(options.lane, ZoneName::RopeAppend, layer);
      team.split(rows, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          const float* row_angles = angles.of(layer, row);
          float* keys = key.data() + row * kv_heads * head_dim;
          const float* values = value.data() + row * kv_heads * head_dim;
          kernels.rope(query.data() + row * heads * head_dim, heads, head_dim, numbers.rope.rotary, row_angles, pairs);
          kernels.rope(keys, kv_heads, head_dim, numbers.rope.rotary, row_angles, pairs);
          const int64_t sequence = batch.sequences[static_cast<size_t>(row)];
          const int64_t position = batch.positions[static_cast<size_t>(row)];
          for (int64_t head = 0; head < kv_heads; ++head) {
            kernels.from_float(options.kv_dtype, keys + head * head_dim,
                               cache.slot(layer, sequence, head, position, false), head_dim);
            kernels.from_float(options.kv_dtype, values + head * head_dim,
                               cache.slot(layer, sequence, head, position, true), head_dim);
          }
          group.tick();
        }
      });
      rope_append.end();
      record_heads(layer, Role::AttnQ, first_head, heads, head_dim, query.data());
      record_heads(layer, Role::AttnK, kv_run.begin, kv_heads, head_dim, key.data());
      record_heads(layer, Role::AttnV, kv_run.begin, kv_heads, head_dim, value.data());
      const Zone zone(options.lane, ZoneName::Attend, layer);
      // Every (row, head) by itself; dealt round, since later rows see longer contexts.
      const int64_t group_size = numbers.heads / numbers.kv_heads;
      team.run([&](int thread) {
        for (int64_t item = thread; item < rows * heads; item += team.threads()) {
          const int64_t row = item / heads;
          const int64_t head = item % heads;
          AttendArgs args;
          args.q = query.data() + item * head_dim;
          args.kv = cache.view(layer, batch.sequences[static_cast<size_t>(row)]);
          args.kv_head = (first_head + head) / group_size - kv_run.begin;
          args.length = batch.positions[static_cast<size_t>(row)] + 1;
          args.scale = numbers.score_scale;
          args.scores = score_scratch[static_cast<size_t>(thread)].data();
          args.out = attended.data() + item * head_dim;
          kernels.attend(args);
          group.tick();
        }
      });
    }
    row_parallel(attended.data(), heads * head_dim, rows, Role::AttnOutput, Role::AttnOutputBias, layer,
                 site::kAttnOutput);
  }

  void feed_forward(int64_t layer, int64_t rows) {
    const Division& ffn = plan.layers[static_cast<size_t>(layer)].ffn;
    const int64_t width = ffn.here(rank);
    if (width > 0) {
      Zone gate_up(options.lane, ZoneName::GateUp, layer);
      multiply(normed.data(), spec.hidden, rows,
               {column_parallel(Role::FfnGate, Role::FfnGateBias, layer, gate.data()),
                column_parallel(Role::FfnUp, Role::FfnUpBias, layer, up.data())});
      gate_up.end();
      const Zone zone(options.lane, ZoneName::Activation, layer);
      team.split(rows * width, 1024, [&](int64_t begin, int64_t end, int) {
        kernels.silu_mul(gate.data() + begin, up.data() + begin, gate.data() + begin, end - begin);
        group.tick();
      });
      if (recording()) {
        const std::string_view name = name_of(weights.get(Role::FfnUp, layer));
        const Range& run = ffn.runs[static_cast<size_t>(rank)];
        for (int64_t leaf = run.begin; leaf < run.end; ++leaf) {
          const int64_t begin = leaf * ffn.leaf - ffn.begin(rank);
          record(layer, name, leaf, gate.data() + begin, width, std::min(ffn.leaf, width - begin));
        }
      }
    }
    row_parallel(gate.data(), width, rows, Role::FfnDown, Role::FfnDownBias, layer, site::kFfnDown);
  }

  void norm(Role role, int64_t layer, const float* in, int64_t rows) {
    const Zone zone(options.lane, ZoneName::Norm, layer);
    const float* weight = weights.get(role, layer).vector;
    team.split(rows, 1, [&](int64_t begin, int64_t end, int) {
      kernels.rms_norm(in + begin * spec.hidden, weight, normed.data() + begin * spec.hidden, end - begin, spec.hidden,
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
      norm(Role::OutputNorm, -1, joined.data(), count);
      const float* result = logits_here.data();
      if (head_divided()) {
        if (vocab_here > 0)
          multiply(normed.data(), spec.hidden, count, {{&head, whole(spec.hidden), logits_here.data()}});
        for (int r = 0; r < plan.tp_size(); ++r) {
          gather_counts[static_cast<size_t>(r)] = static_cast<size_t>(count * plan.vocab.here(r));
        }
        group.at({-1, site::kLmHead});
        const size_t all = rank == 0 ? static_cast<size_t>(count * spec.vocab) : 0;
        group.gather({logits_here.data(), static_cast<size_t>(count * vocab_here)}, gather_counts,
                     {gathered.data(), all}, 0);
        if (rank == 0) result = unmix(count);
      } else if (vocab_here > 0) {
        multiply(normed.data(), spec.hidden, count, {{&head, whole(spec.hidden), logits_here.data()}});
      }
      if (rank == 0 && sink) sink(first, count, result);
    }
  }

  // gathered is [rank][row][its vocabulary rows]; logits become [row][vocab].
  const float* unmix(int64_t count) {
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

  // ---- recording ----

  std::string_view name_of(const Weight& weight) const {
    return spec.weights[static_cast<size_t>(weight.plan->weight)].name;
  }

  bool recording() const { return options.recorder != nullptr; }

  // `values` are [rows, stride] of which the first `width` of each row belong to `unit`.
  void record(int64_t layer, std::string_view tensor, int64_t unit, const float* values, int64_t stride,
              int64_t width) {
    if (!recording()) return;
    for (size_t row = 0; row < now.positions.size(); ++row) {
      options.recorder->record(layer, tensor, unit, now.sequences[row], now.positions[row],
                               {values + static_cast<int64_t>(row) * stride, static_cast<size_t>(width)});
    }
  }

  void record_heads(int64_t layer, Role role, int64_t first, int64_t heads, int64_t head_dim, const float* values) {
    if (!recording()) return;
    const std::string_view name = name_of(weights.get(role, layer));
    for (int64_t head = 0; head < heads; ++head) {
      record(layer, name, first + head, values + head * head_dim, heads * head_dim, head_dim);
    }
  }

  // ---- the step ----

  void forward(const Batch& batch, int64_t step, const LogitSink& sink) {
    const auto rows = static_cast<int64_t>(batch.tokens.size());
    assert(rows > 0 && rows <= options.max_rows);
    now = batch;
    ulp_fault_now = options.fault && options.fault->kind == Fault::Kind::Ulp && options.fault->step == step;
    embed(batch);
    angles.fill(batch.positions);
    for (int64_t layer = 0; layer < static_cast<int64_t>(spec.layers.size()); ++layer) {
      norm(Role::AttnNorm, layer, residual.data(), rows);
      attend(batch, layer);
      norm(Role::FfnNorm, layer, residual.data(), rows);
      feed_forward(layer, rows);
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
  KvCache cache;
  RopeAngles angles;
  const TreeLayout per_rank;
  const JoinProgram single_leaf = join_leaves(1, {0, 1});
  std::vector<JoinProgram> head_joins, ffn_joins;  // [layers], this rank's runs
  Batch now;                                       // the step under way
  bool ulp_fault_now = false;

  AlignedBuffer<float> residual, normed, joined;                     // [max_rows, hidden]
  AlignedBuffer<float> query, attended;                              // [max_rows, heads_here * head_dim]
  AlignedBuffer<float> key, value;                                   // [max_rows, kv_heads_here * head_dim]
  AlignedBuffer<float> gate, up;                                     // [max_rows, ffn_here]
  AlignedBuffer<float> nodes;                                        // [depth, max_rows, hidden]
  AlignedBuffer<float> logits_here;                                  // [kLogitRows, vocab_here]
  AlignedBuffer<float> gathered, logits;                             // [kLogitRows, vocab], rank 0
  std::vector<size_t> gather_counts;                                 // [ranks]
  std::vector<AlignedBuffer<float>> product_scratch, score_scratch;  // [threads]
};

std::string_view selected_isa() {
  return select_kernels().isa;
}

Decoder::Decoder(const ModelSpec& spec, const ShardPlan& plan, const Checkpoint& checkpoint, Group& group, Team& team,
                 const DecoderOptions& options, std::atomic<int64_t>* loaded_bytes)
    : impl_(std::make_unique<Impl>(spec, plan, checkpoint, group, team, options, loaded_bytes)) {}

Decoder::~Decoder() = default;

void Decoder::set_page(int64_t sequence, int64_t index, int32_t page) {
  impl_->cache.set_page(sequence, index, page);
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
  return impl_->cache.bytes();
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
