#!/usr/bin/env python3
"""The oracle: logits of a GGUF Llama model by NumPy alone.

Every tensor is dequantised by the `gguf` package; the forward pass is written from the published description of Llama
and shares nothing with the engine. Weights of attention are expected as GGUF has them: rows of q and k permuted so that
rope turns adjacent pairs.

    llama_numpy.py MODEL.gguf --tokens 1,2,3 --out logits.npy [--float64] [--without rope] ...

--without takes one feature out of the network. Logits that move far when a feature goes show that a comparison against
this oracle would notice the loss (the comparison "has teeth"). attn_norm and ffn_norm go from the first layer only:
without all of them a deep network overflows, which proves nothing.

Checked against mlx-lm 0.28.3 on mlx-cpu 0.32.4 (float32, q and k permuted back to the Hugging Face order): over the
models of make_tiny_llama.py, every rope kind among them, the largest difference is 2.3e-6 of the largest logit; over
SmolLM2-135M-Instruct Q4_1 and 200 random tokens 4.8e-6.
"""

import argparse
import math
from dataclasses import dataclass

import gguf
import numpy as np

FEATURES = ("rope", "rope_scaling", "attn_norm", "ffn_norm", "output_norm", "score_scale", "bias")


@dataclass(frozen=True)
class Rope:
    """Rotary embedding of the first `width` elements of a head."""

    width: int
    base: float
    kind: str = "none"  # none, linear, yarn
    factor: float = 1.0
    original_context: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    divisors: np.ndarray | None = None  # [width / 2], rope_freqs.weight: how llama3 scaling is stored

    def frequencies(self, scaled):
        """Radians a position for each pair [width / 2], and the factor on cosine and sine."""
        pair = np.arange(self.width // 2, dtype=np.float64)
        plain = self.base ** (-2.0 * pair / self.width)
        if not scaled:
            return plain, 1.0
        if self.divisors is not None:
            plain = plain / self.divisors
        if self.kind == "linear":
            return plain / self.factor, 1.0
        if self.kind == "yarn":
            # Pairs that turn more than beta_fast times within the original context keep their frequency, those that
            # turn less than beta_slow times are stretched by the factor, those between are blended linearly.
            low = max(math.floor(self._pair_that_turns(self.beta_fast)), 0)
            high = min(math.ceil(self._pair_that_turns(self.beta_slow)), self.width - 1)
            stretched = np.clip((pair - low) / max(high - low, 0.001), 0.0, 1.0)
            return plain * (1.0 - stretched) + plain / self.factor * stretched, 0.1 * math.log(self.factor) + 1.0
        return plain, 1.0

    def _pair_that_turns(self, times):
        """The (fractional) pair that turns `times` times within the original context."""
        return self.width * math.log(self.original_context / (times * 2.0 * math.pi)) / (2.0 * math.log(self.base))

    def has_scaling(self):
        return self.kind != "none" or self.divisors is not None


class Model:
    """Hyperparameters and dequantised tensors (float32 or float64) of one file."""

    def __init__(self, path, dtype=np.float32):
        reader = gguf.GGUFReader(path)
        self._fields = reader.fields
        if self._key("general.architecture") != "llama":
            raise SystemExit(f"{path}: architecture {self._key('general.architecture')!r}, this oracle knows 'llama'")
        self.dtype = dtype
        self.tensors = {
            t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(dtype).reshape([int(n) for n in t.shape[::-1]])
            for t in reader.tensors
        }
        self.layers = self._key("llama.block_count")
        self.hidden = self._key("llama.embedding_length")
        self.heads = self._key("llama.attention.head_count")
        self.kv_heads = self._key("llama.attention.head_count_kv", self.heads)
        self.key_length = self._key("llama.attention.key_length", self.hidden // self.heads)
        self.value_length = self._key("llama.attention.value_length", self.hidden // self.heads)
        self.eps = self._key("llama.attention.layer_norm_rms_epsilon")
        self.vocab = self.tensors["token_embd.weight"].shape[0]
        self.rope = self._read_rope()

    def _key(self, name, default=None):
        if name in self._fields:
            return self._fields[name].contents()
        if default is None:
            raise SystemExit(f"metadata key {name} is missing")
        return default

    def _read_rope(self):
        kind = self._key("llama.rope.scaling.type", "none")
        if kind not in ("none", "linear", "yarn"):
            raise SystemExit(f"llama.rope.scaling.type {kind!r}: this oracle knows none, linear and yarn")
        divisors = self.tensors.get("rope_freqs.weight")
        return Rope(
            width=self._key("llama.rope.dimension_count", self.key_length),
            base=self._key("llama.rope.freq_base", 10000.0),
            kind=kind,
            factor=self._key("llama.rope.scaling.factor", 1.0),
            original_context=self._key("llama.rope.scaling.original_context_length", self._key("llama.context_length")),
            beta_fast=self._key("llama.rope.scaling.yarn_beta_fast", 32.0),
            beta_slow=self._key("llama.rope.scaling.yarn_beta_slow", 1.0),
            divisors=None if divisors is None else divisors.astype(np.float64),
        )

    def features(self):
        """The members of FEATURES that this model has."""
        absent = set()
        if not self.rope.has_scaling():
            absent.add("rope_scaling")
        if not any(name.endswith(".bias") for name in self.tensors):
            absent.add("bias")
        return tuple(f for f in FEATURES if f not in absent)

    def forward(self, tokens, without=()):
        """Logits [tokens, vocab] of one sequence from position 0."""
        unknown = set(without) - set(FEATURES)
        if unknown:
            raise ValueError(f"unknown features {sorted(unknown)}; known: {', '.join(FEATURES)}")
        x = self.tensors["token_embd.weight"][np.asarray(tokens)]
        for layer in range(self.layers):
            first = layer == 0
            normed = self._norm(x, f"blk.{layer}.attn_norm", first and "attn_norm" in without)
            x = x + self._attention(layer, normed, without)
            normed = self._norm(x, f"blk.{layer}.ffn_norm", first and "ffn_norm" in without)
            x = x + self._feed_forward(layer, normed, without)
        x = self._norm(x, "output_norm", "output_norm" in without)
        return x @ self.tensors.get("output.weight", self.tensors["token_embd.weight"]).T

    def _norm(self, x, name, skip):
        if skip:
            return x
        mean_square = np.mean(x * x, axis=-1, keepdims=True)
        return x / np.sqrt(mean_square + self.dtype(self.eps)) * self.tensors[name + ".weight"]

    def _linear(self, x, name, without):
        y = x @ self.tensors[name + ".weight"].T
        bias = self.tensors.get(name + ".bias")
        return y if bias is None or "bias" in without else y + bias

    def _rotate(self, heads, without):
        """heads: [tokens, heads, key_length]."""
        if "rope" in without:
            return heads
        frequencies, magnitude = self.rope.frequencies(scaled="rope_scaling" not in without)
        angles = np.arange(heads.shape[0])[:, None] * frequencies  # [tokens, width / 2]
        cos = (np.cos(angles) * magnitude).astype(self.dtype)[:, None, :]
        sin = (np.sin(angles) * magnitude).astype(self.dtype)[:, None, :]
        turned = heads.copy()
        even, odd = heads[..., 0 : self.rope.width : 2], heads[..., 1 : self.rope.width : 2]
        turned[..., 0 : self.rope.width : 2] = even * cos - odd * sin
        turned[..., 1 : self.rope.width : 2] = even * sin + odd * cos
        return turned

    def _attention(self, layer, x, without):
        count, block = x.shape[0], f"blk.{layer}.attn_"
        q = self._linear(x, block + "q", without).reshape(count, self.heads, self.key_length)
        k = self._linear(x, block + "k", without).reshape(count, self.kv_heads, self.key_length)
        v = self._linear(x, block + "v", without).reshape(count, self.kv_heads, self.value_length)
        q, k = self._rotate(q, without), self._rotate(k, without)
        out = np.empty((count, self.heads, self.value_length), self.dtype)
        future = np.triu(np.ones((count, count), bool), 1)
        for head in range(self.heads):
            kv_head = head // (self.heads // self.kv_heads)
            scores = q[:, head] @ k[:, kv_head].T
            if "score_scale" not in without:
                scores = scores / self.dtype(math.sqrt(self.key_length))
            scores[future] = -np.inf
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ v[:, kv_head]
        return self._linear(out.reshape(count, -1), block + "output", without)

    def _feed_forward(self, layer, x, without):
        block = f"blk.{layer}.ffn_"
        gate = self._linear(x, block + "gate", without)
        up = self._linear(x, block + "up", without)
        with np.errstate(over="ignore"):  # exp(-gate) may be infinite; the quotient is then the right 0
            silu = gate / (1 + np.exp(-gate))
        return self._linear(silu * up, block + "down", without)


def relative_move(logits, other):
    """The largest difference as a part of the largest logit."""
    return float(np.max(np.abs(logits - other)) / np.max(np.abs(logits)))


def main():
    parser = argparse.ArgumentParser(description="Logits of a GGUF Llama model by NumPy.")
    parser.add_argument("model")
    parser.add_argument("--tokens", required=True, help="comma-separated ids")
    parser.add_argument("--out", required=True, help="float32 .npy file, [tokens, vocab]")
    parser.add_argument("--without", action="append", default=[], choices=FEATURES)
    parser.add_argument("--float64", action="store_true", help="compute in float64")
    args = parser.parse_args()
    model = Model(args.model, np.float64 if args.float64 else np.float32)
    tokens = [int(t) for t in args.tokens.split(",")]
    np.save(args.out, model.forward(tokens, args.without).astype(np.float32))


if __name__ == "__main__":
    main()
