#!/usr/bin/env python3
"""Gemma 3 270M: logits of `lockstep logits --activations f32` beside mlx-lm's in float32.

    gemma3_parity.py LOCKSTEP MODEL.gguf

The `gguf` package dequantises the file, and mlx-lm's own gemma3_text computes from that, but NumPy multiplies by the
matrices: MLX's products take minutes on a processor. 600 seeded random tokens, more
than the sliding window of 512; at two ranks. Passes when every logit lies within 1e-3 of the largest one, and when mlx-lm
without a feature of the family moves by at least 100 times that. Exit 1 otherwise.
"""

import argparse
import sys
from pathlib import Path

import gguf
import mlx.core as mx
import mlx.nn as nn
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle")]
import family_configs  # noqa: E402
import family_gguf  # noqa: E402
import family_models  # noqa: E402
from logits_parity import REAL_TOLERANCE, TEETH, compare, engine_logits  # noqa: E402

TOKENS = 600
FAMILY = family_configs.FAMILIES["gemma3_text"]
FEATURES = ("q_norm", "window", "local_base")  # the fixtures of tests/fixtures/families hear all of them


def config_of(fields):
    """config.json of the file's numbers. What GGUF does not say is fixed by its architecture: every sixth layer is
    global, the others' rope has base 10,000, and scores are divided by the root of head_dim."""

    def number(key):
        return fields["gemma3." + key].contents()

    head_dim = number("attention.key_length")
    return {
        "model_type": "gemma3_text",
        "hidden_size": number("embedding_length"),
        "num_hidden_layers": number("block_count"),
        "intermediate_size": number("feed_forward_length"),
        "num_attention_heads": number("attention.head_count"),
        "num_key_value_heads": number("attention.head_count_kv"),
        "head_dim": head_dim,
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_theta": number("rope.freq_base"),
        "rope_local_base_freq": 10000.0,
        "query_pre_attn_scalar": head_dim,
        "sliding_window": number("attention.sliding_window"),
        "sliding_window_pattern": 6,
        "vocab_size": len(fields["tokenizer.ggml.tokens"].data),
    }


def hugging_face_names(layers):
    """Name in the file -> name in mlx-lm."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA3, layers)
    inner = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm",
             "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm",
             "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]  # fmt: skip
    ours = ["model.embed_tokens", "model.norm"]
    ours += [f"model.layers.{i}.{part}" for i in range(layers) for part in inner]
    return {family_gguf.gguf_name(names, f"{name}.weight"): f"{name}.weight" for name in ours}


def multiply(module, x):
    """[..., in] by a float32 matrix [out, in]."""
    return mx.array(np.array(x) @ np.array(module.weight, copy=False).T)


def main():
    parser = argparse.ArgumentParser(description="Compares lockstep with mlx-lm in float32 on Gemma 3 270M.")
    parser.add_argument("binary", type=Path)
    parser.add_argument("model", type=Path)
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    nn.Linear.__call__ = nn.Embedding.as_linear = multiply

    reader = gguf.GGUFReader(args.model)
    config = config_of(reader.fields)
    names = hugging_face_names(config["num_hidden_layers"])
    weights = {}
    for tensor in reader.tensors:
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        name = names.pop(tensor.name)
        weights[name] = family_gguf.from_gguf(config, FAMILY, name, array.reshape(tensor.shape[::-1]))
    if names:
        raise SystemExit(f"{args.model}: lacks {', '.join(names)}")

    def logits(without=None):
        model = family_models.load(dict(config), weights, rounded=False)
        if without:
            family_models.take_out(model, without)
        return family_models.logits_without_cache(model, tokens)

    tokens = np.random.default_rng(3).integers(0, config["vocab_size"], TOKENS).tolist()
    expected = logits()
    passed = compare(f"{args.model.stem} tp 2", engine_logits(args.binary, args.model, tokens, 2), expected,
                     REAL_TOLERANCE)  # fmt: skip
    for feature in FEATURES:
        move = np.max(np.abs(logits(feature) - expected)) / np.max(np.abs(expected)) / REAL_TOLERANCE
        passed &= bool(move >= TEETH)
        print(f"{'ok  ' if move >= TEETH else 'FAIL'} mlx-lm without {feature} moves by {move:.0f} tolerances",
              flush=True)  # fmt: skip
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
