// A whole model in one file, small enough to build anew for every lie: one Llama layer and a vocabulary of bytes. As it
// is, it runs; a test changes one thing.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "malformed/gguf_writer.h"
#include "text/byte_alphabet.h"

namespace lockstep {

struct TinyLlama {
  static constexpr uint64_t kHidden = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kFfn = 64, kContext = 64;

  TinyLlama() {
    set("general.architecture", "llama");
    set("llama.block_count", kU32, uint32_t{1});
    set("llama.context_length", kU32, uint32_t{kContext});
    set("llama.embedding_length", kU32, uint32_t{kHidden});
    set("llama.feed_forward_length", kU32, uint32_t{kFfn});
    set("llama.attention.head_count", kU32, uint32_t{kHeads});
    set("llama.attention.head_count_kv", kU32, uint32_t{kKvHeads});
    set("llama.attention.key_length", kU32, uint32_t{kHeadDim});
    set("llama.attention.layer_norm_rms_epsilon", kF32, 1e-5F);
    set("tokenizer.ggml.model", "gpt2");
    set("tokenizer.ggml.pre", "gpt-2");
    set("tokenizer.ggml.eos_token_id", kU32, uint32_t{256});
    const ByteAlphabet alphabet;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(alphabet.character(static_cast<uint8_t>(byte)));
    tokens.emplace_back("<|end|>");
    types.assign(256, 1);
    types.push_back(3);
  }

  // A key in place of what it was. set_raw: the value as the file holds it, whatever that is.
  void set_raw(const std::string& key, uint32_t type, std::string_view value) {
    keys[key] = GgufWriter().key(key, type).raw(value).bytes();
  }
  template <class T>
  void set(const std::string& key, uint32_t type, T value) {
    set_raw(key, type, GgufWriter().number(value).bytes());
  }
  void set(const std::string& key, std::string_view text) { set_raw(key, kString, GgufWriter().string(text).bytes()); }

  std::string bytes() const {
    const auto heads = kHeads * kHeadDim, kv_heads = kKvHeads * kHeadDim;
    const std::vector<std::pair<std::string, std::vector<uint64_t>>> tensors{
        {"token_embd.weight", {kHidden, embeddings}},   {"output_norm.weight", {kHidden}},
        {"blk.0.attn_norm.weight", {kHidden}},          {"blk.0.attn_q.weight", {kHidden, heads}},
        {"blk.0.attn_k.weight", {kHidden, kv_heads}},   {"blk.0.attn_v.weight", {kHidden, kv_heads}},
        {"blk.0.attn_output.weight", {heads, kHidden}}, {"blk.0.ffn_norm.weight", {kHidden}},
        {"blk.0.ffn_gate.weight", {kHidden, kFfn}},     {"blk.0.ffn_up.weight", {kHidden, kFfn}},
        {"blk.0.ffn_down.weight", {kFfn, kHidden}},
    };
    GgufWriter file;
    file.header(tensors.size(), keys.size() + 3);
    for (const auto& [name, entry] : keys) file.raw(entry);
    file.array("tokenizer.ggml.tokens", kString, tokens.size());
    for (const auto& token : tokens) file.string(token);
    file.array("tokenizer.ggml.token_type", kI32, types.size());
    for (const int32_t type : types) file.number(type);
    file.array("tokenizer.ggml.merges", kString, merges.size());
    for (const auto& merge : merges) file.string(merge);
    uint64_t values = 0;
    for (const auto& [name, sides] : tensors) {
      file.tensor(name, sides, kTensorF32, values * sizeof(float));
      values += sides.size() == 1 ? sides[0] : sides[0] * sides[1];
    }
    file.pad();
    for (uint64_t i = 0; i < values; ++i) file.number(i % 7 == 0 ? weight : -weight);
    return file.bytes();
  }

  std::map<std::string, std::string> keys;  // as the file holds them
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  uint64_t embeddings = 257;
  float weight = 0.125F;
};

}  // namespace lockstep
