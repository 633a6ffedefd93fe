#!/usr/bin/env python3
"""Compares `lockstep logits` with the NumPy oracle (tests/oracle/llama_numpy.py).

    logits_parity.py LOCKSTEP MODEL.gguf [--tp-size N]   a real model over tests/fixtures/text/prose.txt
    logits_parity.py LOCKSTEP --tiny [--tp-size N ...]   every model of tests/fixtures/tiny at each N (default 1, 2, 3)

A comparison passes when every logit lies within the tolerance (a part of the largest logit) and both sides agree on the
top token wherever the oracle's gap between its first and second exceeds twice the largest error. For a real model the
oracle must also notice the loss of each feature, by at least 100 tolerances. Prints one line a comparison; exit 1 when
one fails.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "oracle"))
from llama_numpy import Model, relative_move  # noqa: E402

REAL_TOLERANCE = 1e-3
MIN_REAL_TOKENS = 200
TEETH = 100


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nexited with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def engine_logits(binary, model, tokens, tp_size):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "logits.npy"
        run([binary, "logits", "-m", model, "--tokens", ",".join(map(str, tokens)), "--out", out, "--tp-size", tp_size,
             "--activations", "f32", "--quiet"])  # fmt: skip
        return np.load(out)


def compare(label, got, expected, tolerance):
    """Prints the figures; True when they pass."""
    if got.dtype != np.float32 or got.shape != expected.shape:
        print(f"FAIL {label}: {got.dtype} {got.shape}, expected float32 {expected.shape}")
        return False
    largest = np.max(np.abs(expected))
    error = np.max(np.abs(got - expected))
    ordered = np.partition(expected, -2, axis=-1)
    decided = ordered[:, -1] - ordered[:, -2] > 2 * error
    other_top = int(np.sum(decided & (got.argmax(axis=-1) != expected.argmax(axis=-1))))
    passed = bool(error <= tolerance * largest and other_top == 0)  # NaN fails
    print(f"{'ok  ' if passed else 'FAIL'} {label}: {len(expected)} tokens, largest error {error / largest:.1e} of the "
          f"largest logit {largest:.2f} (allowed {tolerance:.0e}), other top token {other_top} of {decided.sum()}"
          )  # fmt: skip
    return passed


def tiny_models(binary, tp_sizes):
    records = sorted((TESTS / "fixtures" / "tiny").glob("*.json"))
    if not records:
        raise SystemExit("tests/fixtures/tiny holds no models")
    passed = True
    for path in records:
        record = json.loads(path.read_text())
        expected = np.load(path.with_suffix(".logits.npy"))
        for tp_size in tp_sizes:
            got = engine_logits(binary, path.with_suffix(".gguf"), record["tokens"], tp_size)
            passed &= compare(f"{path.stem} tp {tp_size}", got, expected, record["tolerance"])
    return passed


def real_model(binary, path, tp_sizes):
    text = TESTS / "fixtures" / "text" / "prose.txt"
    tokens = json.loads(run([binary, "tokenize", "-m", path, "-f", text, "--json"]))["tokens"]
    if len(tokens) < MIN_REAL_TOKENS:
        raise SystemExit(f"{text} is {len(tokens)} tokens, at least {MIN_REAL_TOKENS} are wanted")
    oracle = Model(path)
    expected = oracle.forward(tokens)
    passed = True
    for tp_size in tp_sizes:
        got = engine_logits(binary, path, tokens, tp_size)
        passed &= compare(f"{path.stem} tp {tp_size}", got, expected, REAL_TOLERANCE)
    for feature in oracle.features():
        move = relative_move(expected, oracle.forward(tokens, [feature])) / REAL_TOLERANCE
        passed &= move >= TEETH
        print(f"{'ok  ' if move >= TEETH else 'FAIL'} the oracle without {feature} moves by {move:.0f} tolerances")
    return passed


def main():
    parser = argparse.ArgumentParser(description="Compares `lockstep logits` with the NumPy oracle.")
    parser.add_argument("binary", type=Path)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--tiny", action="store_true", help="every model of tests/fixtures/tiny")
    parser.add_argument("--tp-size", type=int, nargs="+", help="default 1 2 3 with --tiny, else 2")
    args = parser.parse_args()
    if args.tiny == (args.model is not None):
        parser.error("give either MODEL.gguf or --tiny")
    passed = (
        tiny_models(args.binary, args.tp_size or [1, 2, 3])
        if args.tiny
        else real_model(args.binary, args.model, args.tp_size or [2])
    )
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
