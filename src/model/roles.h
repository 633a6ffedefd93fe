// What every role is called in each format, and what its sides mean.
#pragma once

#include <span>
#include <string_view>

#include "model/model.h"

namespace lockstep {

struct RoleInfo {
  Role role;
  std::string_view gguf;          // "blk.{}.attn_q.weight"
  std::string_view hugging_face;  // "layers.{}.self_attn.q_proj.weight"; what stands before differs
  Axis out;
  Axis in = Axis::One;
};

// The whole table, in the order of the enumeration.
std::span<const RoleInfo> role_table();
const RoleInfo& info(Role role);

// What every dense model has: embedding, norms, attention and feed-forward; biases and a head of its own where the file
// holds them.
std::span<const WeightRule> dense_rules();

// Tensors that published checkpoints hold beside the text model, "*" at the end for any rest: vision and audio towers,
// heads that predict several tokens, buffers that follow from the numbers.
std::span<const std::string_view> ignored_tensors();

}  // namespace lockstep
