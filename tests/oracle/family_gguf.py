"""Writes the tiny models of family_models.py as GGUF: the names, keys and row orders of llama.cpp's converter, and
blocks that the `gguf` package dequantises for the oracle."""

import math

import gguf
import numpy as np
from family_models import norm_offset
from gguf import GGMLQuantizationType as Type

TYPES = {"q8_0": Type.Q8_0, "q4_k": Type.Q4_K}
BLOCK = 256  # elements of a Q4_K block: eight runs of 32


def quantize_q4_k(rows):
    """float32 [rows, columns] -> bytes [rows, blocks * 144]. Plain rounding to d * scale * code - dmin * minimum, with
    one d and dmin a block, one 6-bit scale and minimum a run, one 4-bit code an element."""
    runs = rows.reshape(-1, 8, 32).astype(np.float64)
    minimum = np.maximum(-runs.min(axis=2), 0.0)
    scale = (runs.max(axis=2) + minimum) / 15.0
    d = (scale.max(axis=1, keepdims=True) / 63.0).astype(np.float16)
    dmin = (minimum.max(axis=1, keepdims=True) / 63.0).astype(np.float16)
    safe = [np.where(x == 0, 1, x).astype(np.float64) for x in (d, dmin)]
    scales = np.clip(np.rint(scale / safe[0]), 0, 63).astype(np.uint8)
    minimums = np.clip(np.rint(minimum / safe[1]), 0, 63).astype(np.uint8)
    step = (scales * d.astype(np.float64))[..., None]
    offset = (minimums * dmin.astype(np.float64))[..., None]
    codes = np.clip(np.rint((runs + offset) / np.where(step == 0, 1, step)), 0, 15).astype(np.uint8)
    # Runs 0 to 3 keep six bits in a byte of their own; runs 4 to 7 four bits in another, two atop those bytes.
    packed = np.empty((len(runs), 12), np.uint8)
    packed[:, 0:4] = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    packed[:, 4:8] = minimums[:, :4] | (minimums[:, 4:] >> 4) << 6
    packed[:, 8:12] = (scales[:, 4:] & 15) | (minimums[:, 4:] & 15) << 4
    pairs = codes.reshape(-1, 4, 2, 32)  # the codes of two neighbouring runs share bytes
    nibbles = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)
    blocks = np.concatenate([d.view(np.uint8), dmin.view(np.uint8), packed, nibbles], axis=1)
    return blocks.reshape(rows.shape[0], -1)


def stored_type(array, form):
    """As llama.cpp falls back where a row is no multiple of the block."""
    if array.ndim == 1 or array.shape[1] < 32:  # vectors, and the taps of convolutions
        return Type.F32
    for dtype in (TYPES[form], Type.Q5_0, Type.F16):
        if array.shape[1] % gguf.GGML_QUANT_SIZES[dtype][0] == 0:
            return dtype


def quantize(array, dtype):
    return quantize_q4_k(array) if dtype == Type.Q4_K else gguf.quants.quantize(array, dtype)


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def adjacent_pairs(array, heads):
    """Rows of q or k from [half, pair] to [pair, half] within each head: the two elements that are rotated together lie
    side by side."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def halves(array, heads):
    return array.reshape(heads, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def reordered(name, array, config, order):
    for part, key in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        if f".{part}." in name:
            return order(array, config[key])
    return array


def llama3_divisors(config):
    """What divides the frequency of each rotary pair."""
    scaling, width = config["rope_scaling"], head_dim(config)
    divisors = []
    for pair in range(width // 2):
        frequency = config["rope_theta"] ** (-2.0 * pair / width)
        turns = scaling["original_max_position_embeddings"] * frequency / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        blend = min(max((turns - low) / (high - low), 0.0), 1.0)
        divisors.append(1.0 / ((1.0 - blend) / scaling["factor"] + blend))
    return np.array(divisors, np.float32)


def add_numbers(writer, config, family):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if family.gguf == "gemma4":
        add_gemma4_numbers(writer, config)
    else:
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        if config.get("head_dim"):
            writer.add_key_length(config["head_dim"])
            writer.add_value_length(config["head_dim"])
    rope = config.get("rope_parameters", config)
    base = rope.get("full_attention", rope)["rope_theta"]
    if "sliding_attention" in rope:
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    scaling = config.get("rope_scaling") or {}
    if "alpha" in scaling:
        base *= scaling["alpha"] ** (head_dim(config) / (head_dim(config) - 2))
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_rope_scaling_factor(1.0)
        writer.add_rope_scaling_orig_ctx_len(config["max_position_embeddings"])
    writer.add_rope_freq_base(base)
    if family.permuted:
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(head_dim(config))
    if family.gguf in ("gemma3", "gemma4"):
        writer.add_sliding_window(config["sliding_window"])
    if family.gguf == "qwen35":
        add_delta_numbers(writer, config)
    if family.gguf == "granite":
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])


def add_delta_numbers(writer, config):
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_num_value_heads"] * config["linear_value_head_dim"])
    writer.add_full_attention_interval(config["full_attention_interval"])
    rope = config["rope_parameters"]
    writer.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
    writer.add_rope_dimension_sections([*rope["mrope_section"], 0])


def add_gemma4_numbers(writer, config):
    layers = config["num_hidden_layers"]
    local = [kind == "sliding_attention" for kind in config["layer_types"]]
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_sliding_window_pattern(local)
    writer.add_key_length(config["global_head_dim"])
    writer.add_value_length(config["global_head_dim"])
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    if config["use_double_wide_mlp"]:
        own = layers - config["num_kv_shared_layers"]
        writer.add_feed_forward_length([config["intermediate_size"] * (1 if i < own else 2) for i in range(layers)])
    else:
        writer.add_feed_forward_length(config["intermediate_size"])
    wide = config["num_global_key_value_heads"]
    if wide is None:
        writer.add_head_count_kv(config["num_key_value_heads"])
    else:
        writer.add_head_count_kv([config["num_key_value_heads"] if is_local else wide for is_local in local])
    writer.add_rope_dimension_count(config["global_head_dim"])
    writer.add_rope_dimension_count_swa(config["head_dim"])


def gemma4_divisors(config):
    """Of the rotary pairs of global layers: those beyond the rotated part never turn."""
    pairs = config["global_head_dim"] // 2
    turning = int(pairs * config["rope_parameters"]["full_attention"]["partial_rotary_factor"])
    return np.array([1.0] * turning + [1e30] * (pairs - turning), np.float32)


def tiled_value_heads(config, name, array, back=False):
    """Value heads from [key head, value head of it] to [value head of it, key head], or back, wherever they stand in
    the tensors of a gated delta net."""
    key_heads, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    outer, inner = (heads // key_heads, key_heads) if back else (key_heads, heads // key_heads)

    def turn(part):
        return part.reshape(outer, inner, -1, *part.shape[1:]).swapaxes(0, 1).reshape(part.shape)

    if ".out_proj." in name:
        return np.ascontiguousarray(turn(array.T).T)
    if ".in_proj_qkv." in name or ".conv1d." in name:
        keys = 2 * key_heads * config["linear_key_head_dim"]
        return np.concatenate([array[:keys], turn(array[keys:])])
    if ".linear_attn.norm." in name:
        return array
    return turn(array)


def to_gguf(config, family, name, array):
    """A tensor as the file has it, from one as Hugging Face files have it."""
    if norm_offset(config["model_type"], name):
        array = array + np.float32(1)
    if family.permuted:
        array = reordered(name, array, config, adjacent_pairs)
    if ".linear_attn." in name:
        array = tiled_value_heads(config, name, array.squeeze(1) if ".conv1d." in name else array)
    return -np.exp(array) if name.endswith("A_log") else array


def from_gguf(config, family, name, array):
    """The reverse of to_gguf."""
    if name.endswith("A_log"):
        array = np.log(-array)
    if ".linear_attn." in name:
        array = tiled_value_heads(config, name, array, back=True)
        array = array[:, None] if ".conv1d." in name else array
    if family.permuted:
        array = reordered(name, array, config, halves)
    return array - np.float32(1) if norm_offset(config["model_type"], name) else array


def gguf_name(names, name):
    name = name.replace("linear_attn.dt_bias", "linear_attn.dt_proj.bias")
    if name.endswith("layer_scalar"):
        name += ".weight"
    return names.get_name(name, try_suffixes=(".weight", ".bias"))


def write(path, config, family, weights, form):
    """Writes the file; returns the weights as they are in it, as Hugging Face files have them, float32."""
    arch = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == family.gguf)
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    writer = gguf.GGUFWriter(path, family.gguf)
    add_numbers(writer, config, family)
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    if family.gguf == "gemma4":
        writer.add_tensor("rope_freqs.weight", gemma4_divisors(config))
    kept = {}
    for name, array in weights.items():
        array = to_gguf(config, family, name, array)
        dtype = stored_type(array, form)
        blocks = quantize(array, dtype)
        writer.add_tensor(gguf_name(names, name), blocks, raw_dtype=dtype)
        kept[name] = from_gguf(config, family, name, gguf.quants.dequantize(blocks, dtype).reshape(array.shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return kept
