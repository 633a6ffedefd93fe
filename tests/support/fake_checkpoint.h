// A checkpoint made of values, for tests that need metadata and tensor shapes but no file.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace lockstep {

class FakeCheckpoint final : public Checkpoint {
 public:
  Metadata meta{"fake.gguf"};
  std::vector<TensorInfo> list;

  void set(std::string key, MetadataScalar value) { meta.insert(std::move(key), {value}); }
  void add(std::string name, DType dtype, std::vector<int64_t> shape) {
    TensorInfo tensor{std::move(name), dtype, std::move(shape), 1, {}};
    for (const int64_t size : tensor.shape) tensor.elements *= size;
    list.push_back(std::move(tensor));
  }

  std::string_view format() const override { return "fake"; }
  Naming naming() const override { return Naming::Gguf; }
  const Metadata& metadata() const override { return meta; }
  std::span<const TensorInfo> tensors() const override { return list; }
  const TensorInfo* find(std::string_view name) const override {
    for (const TensorInfo& tensor : list) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  int64_t file_bytes() const override { return 0; }
  std::vector<std::filesystem::path> files() const override { return {}; }
  void read(std::span<const std::byte> bytes, std::byte* to) const override {
    std::copy(bytes.begin(), bytes.end(), to);
  }
};

struct LlamaNumbers {
  int64_t hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, ffn = 96, vocab = 50, layers = 2;
  DType dtype = DType::F32;
};

// A Llama checkpoint of these numbers without data.
inline FakeCheckpoint fake_llama(const LlamaNumbers& n) {
  FakeCheckpoint file;
  file.set("general.architecture", std::string_view("llama"));
  file.set("llama.block_count", n.layers);
  file.set("llama.embedding_length", n.hidden);
  file.set("llama.context_length", int64_t{2048});
  file.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
  file.set("llama.attention.head_count", n.heads);
  file.set("llama.attention.head_count_kv", n.kv_heads);
  file.set("llama.attention.key_length", n.head_dim);
  file.set("llama.attention.value_length", n.head_dim);
  file.set("llama.feed_forward_length", n.ffn);
  file.add("token_embd.weight", n.dtype, {n.vocab, n.hidden});
  file.add("output_norm.weight", DType::F32, {n.hidden});
  for (int64_t i = 0; i < n.layers; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    file.add(at + "attn_norm.weight", DType::F32, {n.hidden});
    file.add(at + "attn_q.weight", n.dtype, {n.heads * n.head_dim, n.hidden});
    file.add(at + "attn_k.weight", n.dtype, {n.kv_heads * n.head_dim, n.hidden});
    file.add(at + "attn_v.weight", n.dtype, {n.kv_heads * n.head_dim, n.hidden});
    file.add(at + "attn_output.weight", n.dtype, {n.hidden, n.heads * n.head_dim});
    file.add(at + "ffn_norm.weight", DType::F32, {n.hidden});
    file.add(at + "ffn_gate.weight", n.dtype, {n.ffn, n.hidden});
    file.add(at + "ffn_up.weight", n.dtype, {n.ffn, n.hidden});
    file.add(at + "ffn_down.weight", n.dtype, {n.hidden, n.ffn});
  }
  return file;
}

}  // namespace lockstep
