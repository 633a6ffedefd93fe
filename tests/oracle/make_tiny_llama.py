#!/usr/bin/env python3
"""Makes tests/fixtures/tiny/: tiny random Llama models as GGUF, with the logits the oracle gives for them.

    make_tiny_llama.py [--out tests/fixtures/tiny] [NAME ...]

For every model: NAME.gguf; NAME.logits.npy, float32 [tokens, vocab], computed in float64 by llama_numpy.py; NAME.json
with the tokens, the tolerance, how far the logits move when a feature is taken out, and what made the files. The maker
refuses a model whose logits would not notice the loss of a feature. Weights are drawn from a seeded generator, so the
files come out the same with the same package versions.
"""

import argparse
import json
import math
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from llama_numpy import Model, relative_move

LAYERS = 2
CONTEXT = 256
TOKENS = 40
TOLERANCE = 1e-4  # of the largest logit
TEETH = 100  # a feature taken out moves the logits by at least this many tolerances
MAX_BYTES = 1 << 20  # of one committed file


@dataclass(frozen=True)
class Tiny:
    """One model. Matrices are stored in `dtype`, or in F16 when its blocks do not divide the rows; vectors in F32."""

    why: str
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    dtype: Type
    head_dim: int = 0  # 0: hidden / heads, and no key for it in the file
    bias: bool = False
    own_output: bool = False
    tokenizer: bool = False
    rope_base: float = 10000.0
    rope_keys: dict = field(default_factory=dict)
    rope_divisors: tuple = ()


def llama3_divisors(width, base, factor, low, high, original_context):
    """What divides each pair's frequency under llama3 scaling: factor for slow pairs, 1 for fast ones, or a blend."""
    divisors = []
    for pair in range(width // 2):
        turns = original_context * base ** (-2.0 * pair / width) / (2.0 * math.pi)
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        divisors.append(1.0 / ((1.0 - smooth) / factor + smooth))
    return tuple(divisors)


SMALL = {"hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 288, "vocab": 61}
BLOCKS = {"hidden": 160, "heads": 5, "kv_heads": 5, "ffn": 416, "vocab": 251}
MQA = {"hidden": 64, "heads": 8, "kv_heads": 1, "ffn": 176, "vocab": 127}
MODELS = {
    "odd_mha": Tiny("A: nothing divides by 2 or 3, the vocabulary is prime", 80, 5, 5, 208, 251, Type.F32),
    "gqa": Tiny("B: more ranks than KV heads", 112, 14, 2, 304, 257, Type.F16),
    "mqa": Tiny("C: one KV head", **MQA, dtype=Type.F32),
    "mqa_q4_0": Tiny("head edges inside blocks; down in F16, 176 is no multiple of 32", **MQA, dtype=Type.Q4_0),
    "blocks_q4_0": Tiny("five heads of one block each", **BLOCKS, dtype=Type.Q4_0),
    "blocks_q8_0": Tiny("five heads of one block each", **BLOCKS, dtype=Type.Q8_0),
    "q4_1": Tiny("block format", **SMALL, dtype=Type.Q4_1),
    "q5_0": Tiny("block format", **SMALL, dtype=Type.Q5_0),
    "q5_1": Tiny("block format", **SMALL, dtype=Type.Q5_1),
    "bf16": Tiny("format", **SMALL, dtype=Type.BF16),
    "bias": Tiny("a bias in every linear layer", **SMALL, dtype=Type.F16, bias=True),
    "output": Tiny("own output matrix, and a tokenizer", **SMALL | {"vocab": 288}, dtype=Type.F16, own_output=True,
                   tokenizer=True),
    "head_dim": Tiny("heads wider than hidden / heads", **SMALL, dtype=Type.F16, head_dim=24),
    "rope_linear": Tiny("linear scaling", **SMALL, dtype=Type.F16, rope_keys={"type": "linear", "factor": 4.0}),
    "rope_llama3": Tiny("llama3 scaling, stored as rope_freqs.weight", **SMALL, dtype=Type.F16, rope_base=500000.0,
                        rope_divisors=llama3_divisors(16, 500000.0, 8.0, 1.0, 4.0, 64)),
    "rope_yarn": Tiny("yarn scaling", **SMALL, dtype=Type.F16,
                      rope_keys={"type": "yarn", "factor": 4.0, "original_context_length": 64}),
}  # fmt: skip


def random_tensors(tiny, rng):
    """Name -> float32 array. Weights of deviation gain / sqrt(fan-in), so that every part is heard in the logits."""
    head_dim = tiny.head_dim or tiny.hidden // tiny.heads
    q_width, kv_width = tiny.heads * head_dim, tiny.kv_heads * head_dim

    def matrix(rows, cols, gain=1.0):
        return rng.normal(0.0, gain / math.sqrt(cols), (rows, cols)).astype(np.float32)

    def norm():
        return rng.normal(1.0, 0.25, tiny.hidden).astype(np.float32)

    tensors = {"token_embd.weight": rng.normal(0.0, 0.5, (tiny.vocab, tiny.hidden)).astype(np.float32)}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        linear = {
            "attn_q": matrix(q_width, tiny.hidden, 1.5),
            "attn_k": matrix(kv_width, tiny.hidden, 1.5),
            "attn_v": matrix(kv_width, tiny.hidden),
            "attn_output": matrix(tiny.hidden, q_width, 2.0),
            "ffn_gate": matrix(tiny.ffn, tiny.hidden, 1.5),
            "ffn_up": matrix(tiny.ffn, tiny.hidden, 1.5),
            "ffn_down": matrix(tiny.hidden, tiny.ffn),
        }
        tensors[block + "attn_norm.weight"] = norm()
        tensors[block + "ffn_norm.weight"] = norm()
        for name, weight in linear.items():
            tensors[block + name + ".weight"] = weight
            if tiny.bias:
                tensors[block + name + ".bias"] = rng.normal(0.0, 0.3, weight.shape[0]).astype(np.float32)
    tensors["output_norm.weight"] = norm()
    if tiny.own_output:
        tensors["output.weight"] = matrix(tiny.vocab, tiny.hidden)
    if tiny.rope_divisors:
        tensors["rope_freqs.weight"] = np.array(tiny.rope_divisors, np.float32)
    return tensors


def stored_type(tiny, array):
    if array.ndim == 1:
        return Type.F32
    block, _ = gguf.GGML_QUANT_SIZES[tiny.dtype]
    return tiny.dtype if array.shape[-1] % block == 0 else Type.F16


def byte_alphabet():
    """The character for each byte in byte-level BPE, as GPT-2 published it: printable bytes stand for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}


def add_tokenizer(writer, vocab):
    """256 bytes, 29 merges, 3 control tokens."""
    letters = byte_alphabet()
    space = letters[ord(" ")]
    spaced = ["a", "the", "and", "s", "w", "of", "t", "h"]
    pairs = "t h,th e,i n,a n,e r,o n,r e,an d,in g,o r,e s,e n,i t,o u,a t,e d,i s,o f,a l,l l,h e".split(",")
    pairs += [f"{space} {word}" for word in spaced]
    control = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    tokens = [letters[b] for b in range(256)] + [pair.replace(" ", "") for pair in pairs] + control
    if len(tokens) != vocab:
        raise SystemExit(f"the tokenizer has {len(tokens)} tokens, the model {vocab}")
    normal = gguf.TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([normal] * (vocab - len(control)) + [gguf.TokenType.CONTROL] * len(control))
    writer.add_token_merges(pairs)
    writer.add_bos_token_id(vocab - 1)
    writer.add_eos_token_id(vocab - 1)
    writer.add_add_bos_token(False)


def write_gguf(path, tiny, tensors):
    head_dim = tiny.head_dim or tiny.hidden // tiny.heads
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(tiny.hidden)
    writer.add_feed_forward_length(tiny.ffn)
    writer.add_head_count(tiny.heads)
    writer.add_head_count_kv(tiny.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(tiny.vocab)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(tiny.rope_base)
    if tiny.head_dim:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    for key, value in tiny.rope_keys.items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}[type(value)]
        add(f"llama.rope.scaling.{key}", value)
    if tiny.tokenizer:
        add_tokenizer(writer, tiny.vocab)
    for name, array in tensors.items():
        dtype = stored_type(tiny, array)
        writer.add_tensor(name, gguf.quants.quantize(array, dtype), raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(name, out):
    tiny = MODELS[name]
    rng = np.random.default_rng(int.from_bytes(name.encode()[:8], "little"))
    path = out / f"{name}.gguf"
    write_gguf(path, tiny, random_tensors(tiny, rng))
    model = Model(path, np.float64)
    tokens = rng.integers(0, tiny.vocab, TOKENS).tolist()
    logits = model.forward(tokens)
    moves = {f: relative_move(logits, model.forward(tokens, [f])) / TOLERANCE for f in model.features()}
    dull = {feature: move for feature, move in moves.items() if move < TEETH}
    if dull:
        raise SystemExit(f"{name}: taking out {dull} moves the logits by less than {TEETH} tolerances")
    np.save(out / f"{name}.logits.npy", logits.astype(np.float32))
    record = {
        "why": tiny.why,
        "tokens": tokens,
        "tolerance": TOLERANCE,
        "largest_logit": float(np.max(np.abs(logits))),
        "moves_in_tolerances": {feature: round(move) for feature, move in moves.items()},
        "made_by": {
            "script": "tests/oracle/make_tiny_llama.py",
            "gguf": version("gguf"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    (out / f"{name}.json").write_text(json.dumps(record) + "\n")
    large = [p.name for p in out.glob(f"{name}.*") if p.stat().st_size >= MAX_BYTES]
    if large:
        raise SystemExit(f"{', '.join(large)}: more than {MAX_BYTES} bytes")
    print(f"{name}: {path.stat().st_size} bytes, largest logit {record['largest_logit']:.2f}, "
          f"moves {record['moves_in_tolerances']}")  # fmt: skip


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Makes tiny random Llama models with their logits.")
    parser.add_argument("--out", type=Path, default=here.parent / "fixtures" / "tiny")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(MODELS)}")
    args = parser.parse_args()
    unknown = set(args.names) - set(MODELS)
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or MODELS:
        make(name, args.out)


if __name__ == "__main__":
    main()
