"""Models of the sizes people run, without their weights: config.json, and a model.safetensors whose header tells the
truth and whose data is a hole, which takes no room on the disk. Enough for whoever reads headers only."""

import json
import math

BITS, GROUP = 4, 64  # of the MLX quantisation

DENSE = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
}


def dense(model_type, layers, hidden, heads, kv_heads, head_dim, ffn, vocab, **more):
    return DENSE | {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": ffn,
        "vocab_size": vocab,
    } | more


def turns(layers, period, other):
    return ["full_attention" if (i + 1) % period == 0 else other for i in range(layers)]


ROPE = {"rope_theta": 10000.0, "rope_type": "default"}

# Name -> config.json, and beside it which projections have biases and what the norms of heads are called. The numbers
# are those of the published models.
SHAPES = {
    "Llama 3.2 1B": dense("llama", 16, 2048, 32, 8, 64, 8192, 128256),
    "Qwen2.5 0.5B": dense("qwen2", 24, 896, 14, 2, 64, 4864, 151936, biases=["q_proj", "k_proj", "v_proj"]),
    "Qwen3 0.6B": dense("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, head_norms=["q_norm", "k_norm"]),
    "Qwen3.5 0.8B": dense("qwen3_5_text", 24, 1024, 8, 2, 256, 3584, 248320, head_norms=["q_norm", "k_norm"],
                          attn_output_gate=True, layer_types=turns(24, 4, "linear_attention"),
                          linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_num_key_heads=16,
                          linear_num_value_heads=16, linear_value_head_dim=128,
                          rope_parameters=ROPE | {"partial_rotary_factor": 0.25}),
    "Gemma 3 1B": dense("gemma3_text", 26, 1152, 4, 1, 256, 6912, 262144, head_norms=["q_norm", "k_norm"],
                        hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=256, sliding_window=512,
                        sliding_window_pattern=6),
    "Gemma 4 E2B": dense("gemma4_text", 35, 1536, 8, 1, 256, 6144, 262144, head_norms=["q_norm", "k_norm"],
                         final_logit_softcapping=30.0, global_head_dim=512, hidden_activation="gelu_pytorch_tanh",
                         hidden_size_per_layer_input=256, layer_types=turns(35, 5, "sliding_attention"),
                         num_kv_shared_layers=20, sliding_window=512, use_double_wide_mlp=True,
                         vocab_size_per_layer_input=262144,
                         rope_parameters={"full_attention": ROPE, "sliding_attention": ROPE}),
    "ERNIE 4.5 0.3B": dense("ernie4_5", 18, 1024, 16, 2, 128, 3072, 103424),
    "Hunyuan 1.8B": dense("hunyuan_v1_dense", 32, 2048, 16, 4, 128, 6144, 120818,
                          head_norms=["query_layernorm", "key_layernorm"]),
}  # fmt: skip


def attention(config, full, borrows):
    """Name -> shape of an attention layer's tensors."""
    hidden, heads, kv_heads = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("global_head_dim", config["head_dim"]) if full else config["head_dim"]
    rows = {"q_proj": heads * head_dim * (2 if config.get("attn_output_gate") else 1)}
    if not borrows:
        rows |= {"k_proj": kv_heads * head_dim, "v_proj": kv_heads * head_dim}
    tensors = {f"self_attn.{name}.weight": [size, hidden] for name, size in rows.items()}
    tensors |= {f"self_attn.{name}.bias": [rows[name]] for name in config.get("biases", [])}
    norms = config.get("head_norms", [])[: 1 if borrows else 2]
    tensors |= {f"self_attn.{name}.weight": [head_dim] for name in norms}
    return tensors | {"self_attn.o_proj.weight": [hidden, heads * head_dim]}


def delta_net(config):
    hidden, heads = config["hidden_size"], config["linear_num_value_heads"]
    values = heads * config["linear_value_head_dim"]
    channels = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] + values
    shapes = {
        "in_proj_qkv.weight": [channels, hidden],
        "conv1d.weight": [channels, 1, config["linear_conv_kernel_dim"]],
        "in_proj_z.weight": [values, hidden],
        "in_proj_b.weight": [heads, hidden],
        "in_proj_a.weight": [heads, hidden],
        "A_log": [heads],
        "dt_bias": [heads],
        "norm.weight": [config["linear_value_head_dim"]],
        "out_proj.weight": [hidden, values],
    }
    return {f"linear_attn.{name}": shape for name, shape in shapes.items()}


def layer(config, i):
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    kind = config.get("layer_types", ["full_attention"] * config["num_hidden_layers"])[i]
    borrows = i >= config["num_hidden_layers"] - config.get("num_kv_shared_layers", 0)
    ffn *= 2 if borrows and config.get("use_double_wide_mlp") else 1
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config["model_type"].startswith("gemma"):
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    tensors = delta_net(config) if kind == "linear_attention" else attention(config, kind == "full_attention", borrows)
    tensors |= {"mlp.gate_proj.weight": [ffn, hidden], "mlp.up_proj.weight": [ffn, hidden],
                "mlp.down_proj.weight": [hidden, ffn]}  # fmt: skip
    width = config.get("hidden_size_per_layer_input")
    if width:
        norms.append("post_per_layer_input_norm")
        tensors |= {"per_layer_input_gate.weight": [width, hidden], "per_layer_projection.weight": [hidden, width],
                    "layer_scalar": [1]}  # fmt: skip
    return tensors | {f"{name}.weight": [hidden] for name in norms}


def tensors(config):
    """Name -> shape of a whole model."""
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    found = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    width = config.get("hidden_size_per_layer_input")
    if width:
        found["model.embed_tokens_per_layer.weight"] = [config["vocab_size_per_layer_input"], layers * width]
        found["model.per_layer_model_projection.weight"] = [layers * width, hidden]
        found["model.per_layer_projection_norm.weight"] = [width]
    for i in range(layers):
        found |= {f"model.layers.{i}.{name}": shape for name, shape in layer(config, i).items()}
    return found


def quantized(found):
    """Name -> (element type, shape), as mlx-lm quantises all matrices."""
    parts = {}
    for name, shape in found.items():
        if len(shape) != 2:
            parts[name] = "BF16", shape
            continue
        rows, cols = shape
        parts[name] = "U32", [rows, cols * BITS // 32]
        for part in ("scales", "biases"):
            parts[name.removesuffix("weight") + part] = "BF16", [rows, cols // GROUP]
    return parts


def write(folder, config, mlx):
    folder.mkdir()
    found = tensors(config)
    parts = quantized(found) if mlx else {name: ("BF16", shape) for name, shape in found.items()}
    more = {"quantization": {"bits": BITS, "group_size": GROUP}} if mlx else {}
    (folder / "config.json").write_text(json.dumps(config | more))
    header, end = {}, 0
    for name, (dtype, shape) in parts.items():
        begin, end = end, end + math.prod(shape) * {"BF16": 2, "U32": 4}[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
