// Llama 1, 2, 3 and everything published under the same architecture name (SmolLM2, Mistral 7B, ...) in GGUF.
// The GGUF converter reorders the rows of q and k so that the two elements of a rotary pair lie side by side.
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/quoted.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array kRules = {
    WeightRule{TokenEmbedding, "token_embd.weight", Axis::Vocab, Axis::Model},
    WeightRule{RopeFactors, "rope_freqs.weight", Axis::Rotary, Axis::One, true},
    WeightRule{OutputNorm, "output_norm.weight", Axis::Model},
    WeightRule{LmHead, "output.weight", Axis::Vocab, Axis::Model, true},
    WeightRule{AttnNorm, "blk.{}.attn_norm.weight", Axis::Model},
    WeightRule{AttnQ, "blk.{}.attn_q.weight", Axis::Heads, Axis::Model},
    WeightRule{AttnQBias, "blk.{}.attn_q.bias", Axis::Heads, Axis::One, true},
    WeightRule{AttnK, "blk.{}.attn_k.weight", Axis::KvHeads, Axis::Model},
    WeightRule{AttnKBias, "blk.{}.attn_k.bias", Axis::KvHeads, Axis::One, true},
    WeightRule{AttnV, "blk.{}.attn_v.weight", Axis::KvHeads, Axis::Model},
    WeightRule{AttnVBias, "blk.{}.attn_v.bias", Axis::KvHeads, Axis::One, true},
    WeightRule{AttnOutput, "blk.{}.attn_output.weight", Axis::Model, Axis::Heads},
    WeightRule{AttnOutputBias, "blk.{}.attn_output.bias", Axis::Model, Axis::One, true},
    WeightRule{FfnNorm, "blk.{}.ffn_norm.weight", Axis::Model},
    WeightRule{FfnGate, "blk.{}.ffn_gate.weight", Axis::Ffn, Axis::Model},
    WeightRule{FfnGateBias, "blk.{}.ffn_gate.bias", Axis::Ffn, Axis::One, true},
    WeightRule{FfnUp, "blk.{}.ffn_up.weight", Axis::Ffn, Axis::Model},
    WeightRule{FfnUpBias, "blk.{}.ffn_up.bias", Axis::Ffn, Axis::One, true},
    WeightRule{FfnDown, "blk.{}.ffn_down.weight", Axis::Model, Axis::Ffn},
    WeightRule{FfnDownBias, "blk.{}.ffn_down.bias", Axis::Model, Axis::One, true},
};

constexpr int64_t kMax = 1 << 24;  // an upper bound for widths: products of two of them stay far inside 64 bits

RopeSpec read_rope(const Metadata& metadata, int64_t head_dim) {
  RopeSpec rope;
  rope.pairs = RopeSpec::Pairs::Adjacent;
  rope.rotary = metadata.get_int("llama.rope.dimension_count", 2, head_dim).value_or(head_dim);
  if (rope.rotary % 2 != 0) {
    fail(ErrorKind::Malformed,
         "{}: the rotary width is {} (llama.rope.dimension_count, else the width of a head); it must be even",
         metadata.file(), rope.rotary);
  }
  const auto above = [&](double limit, std::string_view key, double otherwise) {
    const double value = metadata.get_float(key).value_or(otherwise);
    if (value <= limit) {
      fail(ErrorKind::Malformed, "{}: {} is {}; it must be above {}", metadata.file(), key, value, limit);
    }
    return value;
  };
  const auto positive = [&](std::string_view key, double otherwise) { return above(0, key, otherwise); };
  rope.base = above(1, "llama.rope.freq_base", 10000);
  const std::string_view kind = metadata.get_string("llama.rope.scaling.type").value_or("none");
  rope.factor = metadata.get_float("llama.rope.scaling.factor").value_or(1);
  if (rope.factor < 1) {
    fail(ErrorKind::Malformed, "{}: llama.rope.scaling.factor is {}; it must be at least 1", metadata.file(),
         rope.factor);
  }
  if (kind == "linear") {
    rope.scaling = RopeSpec::Scaling::Linear;
  } else if (kind == "yarn") {
    rope.scaling = RopeSpec::Scaling::Yarn;
    rope.original_context = metadata.require_int("llama.rope.scaling.original_context_length", 1, INT32_MAX);
    rope.beta_fast = positive("llama.rope.scaling.yarn_beta_fast", 32);
    rope.beta_slow = positive("llama.rope.scaling.yarn_beta_slow", 1);
    rope.attention_factor =
        positive("llama.rope.scaling.attn_factor", 1) * (rope.factor > 1 ? 0.1 * std::log(rope.factor) + 1 : 1);
  } else if (kind != "none") {
    fail(ErrorKind::Unsupported,
         "{}: llama.rope.scaling.type is {}; known: none, linear, yarn (and the Llama 3 kind as tensor "
         "rope_freqs.weight)",
         metadata.file(), in_quotes(kind));
  }
  return rope;
}

ModelSpec read(const Checkpoint& checkpoint) {
  const Metadata& metadata = checkpoint.metadata();
  if (const auto experts = metadata.get_int("llama.expert_count", 0, kMax).value_or(0); experts > 0) {
    fail(ErrorKind::Unsupported, "{}: llama.expert_count is {}; mixture-of-experts models do not run yet",
         metadata.file(), experts);
  }
  ModelSpec spec;
  // A layer has at least seven tensors, so the number of layers is bounded by what the file holds.
  const auto most_layers = static_cast<int64_t>(checkpoint.tensors().size());
  const int64_t layers = metadata.require_int("llama.block_count", 1, std::max<int64_t>(most_layers, 1));
  spec.hidden = metadata.require_int("llama.embedding_length", 1, kMax);
  spec.context = metadata.require_int("llama.context_length", 1, INT32_MAX);
  const TensorInfo* embedding = checkpoint.find("token_embd.weight");
  spec.vocab = embedding != nullptr && embedding->shape.size() == 2 ? embedding->shape[0]
                                                                    : metadata.require_int("llama.vocab_size", 1, kMax);
  if (spec.vocab < 1 || spec.vocab > INT32_MAX) {
    fail(ErrorKind::Malformed, "{}: the vocabulary has {} entries; allowed are 1 to {}", metadata.file(), spec.vocab,
         INT32_MAX);
  }
  const double norm_eps = metadata.require_float("llama.attention.layer_norm_rms_epsilon");
  if (norm_eps < 0 || norm_eps > 1) {
    fail(ErrorKind::Malformed, "{}: llama.attention.layer_norm_rms_epsilon is {}; it must be from 0 to 1",
         metadata.file(), norm_eps);
  }
  spec.norm_eps = static_cast<float>(norm_eps);

  LayerSpec layer;
  layer.heads = metadata.require_int("llama.attention.head_count", 1, kMax);
  layer.kv_heads = metadata.get_int("llama.attention.head_count_kv", 1, layer.heads).value_or(layer.heads);
  if (layer.heads % layer.kv_heads != 0) {
    fail(ErrorKind::Malformed, "{}: llama.attention.head_count_kv is {}; it must divide the {} query heads",
         metadata.file(), layer.kv_heads, layer.heads);
  }
  const auto head_dim = metadata.get_int("llama.attention.key_length", 1, kMax);
  if (!head_dim && spec.hidden % layer.heads != 0) {
    fail(ErrorKind::Malformed, "{}: llama.embedding_length {} is not a multiple of the {} query heads", metadata.file(),
         spec.hidden, layer.heads);
  }
  layer.head_dim = head_dim.value_or(spec.hidden / layer.heads);
  const int64_t value_dim = metadata.get_int("llama.attention.value_length", 1, kMax).value_or(layer.head_dim);
  if (value_dim != layer.head_dim) {
    fail(ErrorKind::Unsupported, "{}: llama.attention.value_length is {}; only the key length, {}, is supported",
         metadata.file(), value_dim, layer.head_dim);
  }
  layer.ffn = metadata.require_int("llama.feed_forward_length", 1, kMax);
  layer.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(layer.head_dim)));
  layer.rope = read_rope(metadata, layer.head_dim);
  spec.layers.assign(static_cast<size_t>(layers), layer);
  return spec;
}

constexpr Family kFamily = {"llama", kRules, {}, &read};

}  // namespace

const Family& llama_family() {
  return kFamily;
}

}  // namespace lockstep
