#!/usr/bin/env python3
"""llama.cpp and the engine over the tiny GGUF models of tests/fixtures/families: that llama.cpp agrees with the logits
which mlx-lm gave and the engine is held to, so that the files are what its users have; and that the two read numbers
alike which those files do not have.

    llamacpp_families.py LOCKSTEP [FAMILY.FORMAT ...]

Weights are given to both as float32, so that llama.cpp quantises no activations; its cache of keys and values has 16
bits, which is what BOUND leaves room for. A feature taken out moves the logits by 8 % and more (make_family_fixtures.py).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from llamacpp import LlamaCpp

FAMILIES = Path(__file__).resolve().parent.parent / "fixtures" / "families"
BOUND = 0.01  # of the largest logit

# Numbers that the fixtures do not have, of files that llama.cpp reads. "layers": as many, repeated.
CHANGES = [
    ("llama.q8_0", {"llama.rope.scale_linear": 4.0}),
    ("llama.q8_0", {"llama.rope.scaling.factor": 4.0}),
    ("gemma3_text.q8_0", {"gemma3.final_logit_softcapping": 2.0}),
    ("gemma3_text.q8_0", {"gemma3.rope.freq_base_swa": 1000.0}),
    ("gemma3_text.q4_k", {"layers": 61}),
    ("gemma3_text.q4_k", {"layers": 62}),
    ("granite.q4_k", {"granite.rope.scaling.finetuned": False}),
    ("hunyuan_v1_dense.q8_0", {"hunyuan-dense.rope.scaling.alpha": 1000.0}),
    ("gemma4_text.q8_0", {"gemma4.rope.scaling.type": "linear", "gemma4.rope.scaling.factor": 2.0}),
]


def add(writer, key, value, kind=None):
    if isinstance(value, list):
        writer.add_array(key, value)
    elif kind is not None:
        writer.add_key_value(key, value, kind)
    else:
        {bool: writer.add_bool, float: writer.add_float32, str: writer.add_string}[type(value)](key, value)


def rewrite(name, target, vocab, changes):
    """A copy of a fixture with plain weights, other numbers, and the word that it has no tokenizer."""
    reader = gguf.GGUFReader(FAMILIES / name / "model.gguf")
    architecture = reader.fields["general.architecture"].contents()
    changes = dict(changes)
    own = reader.fields[f"{architecture}.block_count"].contents()
    layers = changes.pop("layers", own)
    writer = gguf.GGUFWriter(target, architecture)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", f"{architecture}.vocab_size", *changes):
            continue
        value = layers if key == f"{architecture}.block_count" else field.contents()
        add(writer, key, value, field.types[0])
    for key, value in changes.items():
        add(writer, key, value)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(vocab)
    for tensor in reader.tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        weights = weights.reshape([int(side) for side in reversed(tensor.shape)])
        writer.add_tensor(tensor.name, weights)
        for layer in range(own, layers):
            block = f"blk.{layer % own}."
            if tensor.name.startswith(block):
                # The more layers, the less each adds, so that logits stay of one size.
                small = 0.2 if "output" in tensor.name or "down" in tensor.name else 1
                writer.add_tensor(tensor.name.replace(block, f"blk.{layer}."), weights * np.float32(small))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ours(program, path, tokens, out):
    command = [program, "logits", "-m", path, "--tokens", ",".join(map(str, tokens)), "--out", out, "--quiet",
               "--activations", "f32", "--tp-size", "2"]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return np.load(out)


def main():
    program, *names = sys.argv[1:]
    cases = [(name, {}) for name in names or sorted(path.parent.name for path in FAMILIES.glob("*/model.gguf"))]
    if not names:
        cases += CHANGES
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "model.gguf", Path(folder) / "logits.npy"
        for name, changes in cases:
            oracle = np.load(FAMILIES / name / "logits.npy")
            tokens = json.loads((FAMILIES / name / "oracle.json").read_text())["tokens"]
            rewrite(name, path, oracle.shape[1], changes)
            expected = LlamaCpp(path, 256).logits(tokens)
            largest = np.abs(expected).max()
            found = {"lockstep": ours(program, path, tokens, out)}
            if not changes:
                found["mlx-lm"] = oracle
            differences = {who: float(np.abs(logits - expected).max() / largest) for who, logits in found.items()}
            print(name, changes or "", {who: f"{difference:.1e}" for who, difference in differences.items()}, flush=True)
            failed += [(name, changes, who) for who, difference in differences.items() if not difference <= BOUND]
    if failed:
        raise SystemExit(f"more than {BOUND:.0e} of the largest logit from llama.cpp: {failed}")


main()
