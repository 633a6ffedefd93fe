// The table of roles.
#include "model/roles.h"

#include <array>

namespace lockstep {
namespace {

using enum Role;
constexpr auto kRoleTable = std::to_array<RoleInfo>({
    {TokenEmbedding, "token_embd.weight", "embed_tokens.weight", Axis::Vocab, Axis::Model},
    {RopeFactors, "rope_freqs.weight", "", Axis::Rotary},
    {AttnNorm, "blk.{}.attn_norm.weight", "layers.{}.input_layernorm.weight", Axis::Model},
    {AttnQ, "blk.{}.attn_q.weight", "layers.{}.self_attn.q_proj.weight", Axis::Heads, Axis::Model},
    {AttnQBias, "blk.{}.attn_q.bias", "layers.{}.self_attn.q_proj.bias", Axis::Heads},
    {AttnK, "blk.{}.attn_k.weight", "layers.{}.self_attn.k_proj.weight", Axis::KvHeads, Axis::Model},
    {AttnKBias, "blk.{}.attn_k.bias", "layers.{}.self_attn.k_proj.bias", Axis::KvHeads},
    {AttnV, "blk.{}.attn_v.weight", "layers.{}.self_attn.v_proj.weight", Axis::KvHeads, Axis::Model},
    {AttnVBias, "blk.{}.attn_v.bias", "layers.{}.self_attn.v_proj.bias", Axis::KvHeads},
    {AttnQNorm, "blk.{}.attn_q_norm.weight", "layers.{}.self_attn.q_norm.weight", Axis::HeadDim},
    {AttnKNorm, "blk.{}.attn_k_norm.weight", "layers.{}.self_attn.k_norm.weight", Axis::HeadDim},
    {AttnOutput, "blk.{}.attn_output.weight", "layers.{}.self_attn.o_proj.weight", Axis::Model, Axis::Heads},
    {AttnOutputBias, "blk.{}.attn_output.bias", "layers.{}.self_attn.o_proj.bias", Axis::Model},
    {DeltaQ, "blk.{}.attn_qkv.weight", "layers.{}.linear_attn.in_proj_qkv.weight", Axis::KvHeads, Axis::Model},
    {DeltaK, "blk.{}.attn_qkv.weight", "layers.{}.linear_attn.in_proj_qkv.weight", Axis::KvHeads, Axis::Model},
    {DeltaV, "blk.{}.attn_qkv.weight", "layers.{}.linear_attn.in_proj_qkv.weight", Axis::Heads, Axis::Model},
    {DeltaConvQ, "blk.{}.ssm_conv1d.weight", "layers.{}.linear_attn.conv1d.weight", Axis::KvHeads, Axis::Taps},
    {DeltaConvK, "blk.{}.ssm_conv1d.weight", "layers.{}.linear_attn.conv1d.weight", Axis::KvHeads, Axis::Taps},
    {DeltaConvV, "blk.{}.ssm_conv1d.weight", "layers.{}.linear_attn.conv1d.weight", Axis::Heads, Axis::Taps},
    {DeltaGate, "blk.{}.attn_gate.weight", "layers.{}.linear_attn.in_proj_z.weight", Axis::Heads, Axis::Model},
    {DeltaBeta, "blk.{}.ssm_beta.weight", "layers.{}.linear_attn.in_proj_b.weight", Axis::HeadScalars, Axis::Model},
    {DeltaDecay, "blk.{}.ssm_alpha.weight", "layers.{}.linear_attn.in_proj_a.weight", Axis::HeadScalars, Axis::Model},
    {DeltaRate, "blk.{}.ssm_a", "layers.{}.linear_attn.A_log", Axis::HeadScalars},
    {DeltaTimeBias, "blk.{}.ssm_dt.bias", "layers.{}.linear_attn.dt_bias", Axis::HeadScalars},
    {DeltaNorm, "blk.{}.ssm_norm.weight", "layers.{}.linear_attn.norm.weight", Axis::HeadDim},
    {DeltaOutput, "blk.{}.ssm_out.weight", "layers.{}.linear_attn.out_proj.weight", Axis::Model, Axis::Heads},
    {AttnPostNorm, "blk.{}.post_attention_norm.weight", "layers.{}.post_attention_layernorm.weight", Axis::Model},
    {FfnNorm, "blk.{}.ffn_norm.weight", "layers.{}.post_attention_layernorm.weight", Axis::Model},
    {FfnGate, "blk.{}.ffn_gate.weight", "layers.{}.mlp.gate_proj.weight", Axis::Ffn, Axis::Model},
    {FfnGateBias, "blk.{}.ffn_gate.bias", "layers.{}.mlp.gate_proj.bias", Axis::Ffn},
    {FfnUp, "blk.{}.ffn_up.weight", "layers.{}.mlp.up_proj.weight", Axis::Ffn, Axis::Model},
    {FfnUpBias, "blk.{}.ffn_up.bias", "layers.{}.mlp.up_proj.bias", Axis::Ffn},
    {FfnDown, "blk.{}.ffn_down.weight", "layers.{}.mlp.down_proj.weight", Axis::Model, Axis::Ffn},
    {FfnDownBias, "blk.{}.ffn_down.bias", "layers.{}.mlp.down_proj.bias", Axis::Model},
    {FfnPostNorm, "blk.{}.post_ffw_norm.weight", "layers.{}.post_feedforward_layernorm.weight", Axis::Model},
    {LayerInputGate, "blk.{}.inp_gate.weight", "layers.{}.per_layer_input_gate.weight", Axis::LayerInput, Axis::Model},
    {LayerInputOutput, "blk.{}.proj.weight", "layers.{}.per_layer_projection.weight", Axis::Model, Axis::LayerInput},
    {LayerInputNorm, "blk.{}.post_norm.weight", "layers.{}.post_per_layer_input_norm.weight", Axis::Model},
    {LayerScale, "blk.{}.layer_output_scale.weight", "layers.{}.layer_scalar", Axis::One},
    {LayerInputEmbedding, "per_layer_token_embd.weight", "embed_tokens_per_layer.weight", Axis::LayerVocab,
     Axis::LayerInputs},
    {LayerInputProjection, "per_layer_model_proj.weight", "per_layer_model_projection.weight", Axis::LayerInputs,
     Axis::Model},
    {LayerInputProjectionNorm, "per_layer_proj_norm.weight", "per_layer_projection_norm.weight", Axis::LayerInput},
    {OutputNorm, "output_norm.weight", "norm.weight", Axis::Model},
    {LmHead, "output.weight", "lm_head.weight", Axis::Vocab, Axis::Model},
});

constexpr bool in_order() {
  for (size_t i = 0; i < kRoleTable.size(); ++i) {
    if (kRoleTable[i].role != static_cast<Role>(i)) return false;
  }
  return kRoleTable.size() == kRoles;
}
static_assert(in_order(), "the table has one row a role, in the order of the enumeration");

constexpr auto kDenseRules = std::to_array<WeightRule>({
    {TokenEmbedding},
    {OutputNorm},
    {LmHead, true},
    {AttnNorm},
    {AttnQ},
    {AttnQBias, true},
    {AttnK},
    {AttnKBias, true},
    {AttnV},
    {AttnVBias, true},
    {AttnOutput},
    {AttnOutputBias, true},
    {FfnNorm},
    {FfnGate},
    {FfnGateBias, true},
    {FfnUp},
    {FfnUpBias, true},
    {FfnDown},
    {FfnDownBias, true},
});

constexpr auto kIgnored = std::to_array<std::string_view>({
    "vision_tower.*",
    "vision_model.*",
    "visual.*",
    "audio_tower.*",
    "multi_modal_projector.*",
    "embed_vision.*",
    "embed_audio.*",
    "model.vision_tower.*",
    "model.vision_model.*",
    "model.visual.*",
    "model.audio_tower.*",
    "model.multi_modal_projector.*",
    "model.embed_vision.*",
    "model.embed_audio.*",
    "mtp.*",
    "model.mtp*",
    "*.rotary_emb.inv_freq",  // follows from the numbers
    "v.*",                    // GGUF: vision
    "mm.*",                   // GGUF: projector
});

}  // namespace

std::span<const RoleInfo> role_table() {
  return kRoleTable;
}

const RoleInfo& info(Role role) {
  return kRoleTable[static_cast<size_t>(role)];
}

std::span<const WeightRule> dense_rules() {
  return kDenseRules;
}

std::span<const std::string_view> ignored_tensors() {
  return kIgnored;
}

}  // namespace lockstep
