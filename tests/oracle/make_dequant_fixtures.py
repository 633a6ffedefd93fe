"""Makes tests/fixtures/dequant: blocks of every format, and what the `gguf` package, MLX and NumPy say they are.

    python tests/oracle/make_dequant_fixtures.py [folder]

formats.txt       one format a line, as dtype_table() names it; the next two files hold them in this order
formats.blocks    stored bytes: of each format ROWS rows of COLS elements
formats.floats    their dequantisation by the gguf package or by MLX (scales and biases as float32), [ROWS, COLS]
round.floats      float32 values: ordinary, half way between two neighbours, subnormal, too large, infinite
round.f16         the same rounded by NumPy, round.bf16 by the gguf package
versions.json     what made them

A block of an MLX format is one group: scale, bias (affine only), codes in the bytes MLX stores.
"""

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np

ROWS, COLS = 2, 512
# Where the halves of a block lie that scale the others.
HALVES_AT = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
             "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
# Scales and minima that a block may hold: zeros of both signs, subnormal halves, the smallest and largest normal ones.
HALVES = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF], np.uint16)
MLX_BITS, MLX_GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)
# mode -> bits, group. Scales are bytes.
MLX_FLOATS = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


def finite_floats(rng, count):
    bits = rng.integers(0, 1 << 32, count, np.uint32)
    return np.where((bits & 0x7F800000) == 0x7F800000, bits ^ 0x40000000, bits).astype(np.uint32)


def finite_halves(rng, count):
    bits = rng.integers(0, 1 << 16, count, np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits ^ 0x4000, bits).astype(np.uint16)
    return np.where(rng.random(count) < 0.3, rng.choice(HALVES, count), bits).astype(np.uint16)


def finite_bfloats(rng, count):
    bits = rng.integers(0, 1 << 16, count, np.uint16)
    return np.where((bits & 0x7F80) == 0x7F80, bits ^ 0x4000, bits).astype(np.uint16)


PLAIN = {"F32": finite_floats, "F16": finite_halves, "BF16": finite_bfloats}


def gguf_format(rng, name):
    """Stored bytes, random but for finite halves, and their floats."""
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * COLS // elements
    if name in PLAIN:
        stored = PLAIN[name](rng, count).view(np.uint8)
    else:
        blocks = rng.integers(0, 256, (count, size), np.uint8)
        for at in HALVES_AT[name]:
            blocks[:, at : at + 2] = finite_halves(rng, count).view(np.uint8).reshape(count, 2)
        if name == "MXFP4":  # every scale, the subnormal and the largest ones first
            blocks[:, 0] = np.concatenate([[0, 1, 2, 253, 254, 255], rng.integers(0, 256, count - 6)])
        stored = blocks.reshape(-1)
    with np.errstate(over="ignore"):
        return stored, gguf.quants.dequantize(stored.reshape(ROWS, -1), kind)


def to_float32(bits, name):
    return mx.view(mx.array(bits), {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}[name]).astype(mx.float32)


def in_blocks(group, codes, *heads):
    """One block a group: its part of every head, then its codes."""
    groups = ROWS * COLS // group
    parts = [np.ascontiguousarray(part).view(np.uint8).reshape(groups, -1) for part in (*heads, codes)]
    return np.concatenate(parts, axis=1).reshape(-1)


def mlx_affine(rng, bits, group, scales_name):
    codes = rng.integers(0, 256, (ROWS, COLS * bits // 8), np.uint8)
    scales, biases = (PLAIN[scales_name](rng, ROWS * COLS // group).reshape(ROWS, -1) for _ in range(2))
    floats = mx.dequantize(mx.array(codes.view(np.uint32)), to_float32(scales, scales_name),
                           to_float32(biases, scales_name), group_size=group, bits=bits, mode="affine")
    return in_blocks(group, codes, scales, biases), np.array(floats)


def mlx_floats(rng, mode):
    bits, group = MLX_FLOATS[mode]
    codes = rng.integers(0, 256, (ROWS, COLS * bits // 8), np.uint8)
    scales = rng.integers(0, 256, (ROWS, COLS // group), np.uint8)
    scales[:, :6] = [0, 1, 2, 127, 254, 255]  # with subnormal, infinite and NaN results
    floats = mx.dequantize(mx.array(codes.view(np.uint32)), mx.array(scales), group_size=group, bits=bits, mode=mode,
                           dtype=mx.float32)
    return in_blocks(group, codes, scales), np.array(floats)


def formats(rng):
    for name in (*PLAIN, *HALVES_AT):
        yield name, *gguf_format(rng, name)
    for mode in MLX_FLOATS:
        yield f"MLX {mode}", *mlx_floats(rng, mode)
    for bits in MLX_BITS:
        for group in MLX_GROUPS:
            for scales in ("F16", "BF16", "F32"):
                yield f"MLX affine{bits}/{group} {scales}", *mlx_affine(rng, bits, group, scales)


def values_to_round(rng):
    floats = rng.standard_normal(400).astype(np.float32) * np.exp2(rng.integers(-30, 18, 400)).astype(np.float32)
    f16 = finite_halves(rng, 200).view(np.float16)
    with np.errstate(over="ignore"):
        up = np.nextafter(f16, np.float16(np.inf))
    halfway16 = ((f16.astype(np.float64) + up.astype(np.float64)) / 2).astype(np.float32)
    halfway_bf16 = ((rng.integers(0, 0x7F00, 200).astype(np.uint32) << 16) | 0x8000).view(np.float32)
    edges = np.array([0.0, -0.0, 65504, 65519.996, 65520, -65520, 1e38, 3.4028235e38, 1e-45, 2**-25, 2**-24, 2**-14,
                      np.inf, -np.inf, np.nan], np.float32)
    near = np.concatenate([np.nextafter(halfway16, np.float32(x)) for x in (np.inf, -np.inf)])
    return np.concatenate([floats, halfway16, near, halfway_bf16, edges])


def main():
    mx.set_default_device(mx.cpu)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "fixtures" / "dequant"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2511)
    names, blocks, all_floats = [], [], []
    for name, stored, floats in formats(rng):
        assert floats.shape == (ROWS, COLS) and floats.dtype == np.float32, name
        names.append(name)
        blocks.append(stored)
        all_floats.append(floats.reshape(-1))
    (folder / "formats.txt").write_text("\n".join(names) + "\n")
    np.concatenate(blocks).tofile(folder / "formats.blocks")
    np.concatenate(all_floats).tofile(folder / "formats.floats")
    values = values_to_round(rng)
    values.tofile(folder / "round.floats")
    with np.errstate(over="ignore"):
        values.astype(np.float16).tofile(folder / "round.f16")
    gguf.quants.quantize(values.reshape(1, -1), gguf.GGMLQuantizationType.BF16).tofile(folder / "round.bf16")
    versions = {"python": platform.python_version(), "gguf": version("gguf"), "mlx": version("mlx"),
                "numpy": version("numpy"), "rows": ROWS, "cols": COLS}
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
