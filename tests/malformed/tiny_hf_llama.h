// A whole model as Hugging Face and MLX publish it, small enough to build anew for every lie: one Llama layer, plain or
// quantised. As it is, it runs; a test changes one thing. Nothing is checked here.
#pragma once

#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "malformed/folder.h"

namespace lockstep {

// A safetensors file: the length of the header, the header, the data.
inline std::string safetensors(std::string_view header, std::string_view data, uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)).append(header).append(data);
}
inline std::string safetensors(std::string_view header, size_t data_bytes = 0) {
  return safetensors(header, std::string(data_bytes, '\0'), header.size());
}

// A small file that is right: 16 and 6 bytes of data.
inline constexpr std::string_view kGoodHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"F16","shape":[3],"data_offsets":[16,22]}})";
inline std::string good_safetensors() {
  return safetensors(kGoodHeader, 22);
}

struct TinyHfLlama {
  static constexpr int64_t kHidden = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kFfn = 96, kVocab = 40;

  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
  };

  explicit TinyHfLlama(bool quantised = false) {
    config = {{"model_type", R"("llama")"},
              {"hidden_size", std::to_string(kHidden)},
              {"num_hidden_layers", "1"},
              {"num_attention_heads", std::to_string(kHeads)},
              {"num_key_value_heads", std::to_string(kKvHeads)},
              {"head_dim", std::to_string(kHeadDim)},
              {"intermediate_size", std::to_string(kFfn)},
              {"max_position_embeddings", "64"},
              {"vocab_size", std::to_string(kVocab)},
              {"rms_norm_eps", "1e-5"},
              {"rope_theta", "10000.0"}};
    if (quantised) config["quantization"] = R"({"group_size": 32, "bits": 4})";
    const auto matrix = [&](const std::string& module, int64_t rows, int64_t cols) {
      if (!quantised) {
        tensors[module + ".weight"] = {"F32", {rows, cols}};
        return;
      }
      tensors[module + ".weight"] = {"U32", {rows, cols / 8}};
      tensors[module + ".scales"] = {"F16", {rows, cols / 32}};
      tensors[module + ".biases"] = {"F16", {rows, cols / 32}};
    };
    const std::string layer = "model.layers.0.";
    matrix("model.embed_tokens", kVocab, kHidden);
    matrix(layer + "self_attn.q_proj", kHeads * kHeadDim, kHidden);
    matrix(layer + "self_attn.k_proj", kKvHeads * kHeadDim, kHidden);
    matrix(layer + "self_attn.v_proj", kKvHeads * kHeadDim, kHidden);
    matrix(layer + "self_attn.o_proj", kHidden, kHeads * kHeadDim);
    matrix(layer + "mlp.gate_proj", kFfn, kHidden);
    matrix(layer + "mlp.up_proj", kFfn, kHidden);
    matrix(layer + "mlp.down_proj", kHidden, kFfn);
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      tensors[layer + norm + ".weight"] = {"F32", {kHidden}};
    }
    tensors["model.norm.weight"] = {"F32", {kHidden}};
  }

  std::string config_text() const {
    std::string text;
    for (const auto& [key, value] : config)
      text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ",\n ", key, value);
    return text + "}";
  }

  // All zeros.
  std::string tensor_file() const {
    std::string header;
    int64_t at = 0;
    for (const auto& [name, tensor] : tensors) {
      int64_t bytes = tensor.dtype == "F32" || tensor.dtype == "U32" ? 4 : tensor.dtype == "U8" ? 1 : 2;
      for (const int64_t side : tensor.shape) bytes *= side;
      header +=
          fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header.empty() ? "{" : ",",
                      name, tensor.dtype, fmt::join(tensor.shape, ","), at, at + bytes);
      at += bytes;
    }
    return safetensors(header + "}", static_cast<size_t>(at));
  }

  // The folder, as --model takes it.
  std::string write(const Folder& folder) const {
    folder.write("config.json", config_text());
    folder.write("model.safetensors", tensor_file());
    return folder.path().string();
  }

  std::map<std::string, std::string> config;  // values as JSON
  std::map<std::string, Tensor> tensors;
};

}  // namespace lockstep
