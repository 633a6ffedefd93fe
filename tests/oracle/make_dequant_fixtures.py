"""Makes tests/fixtures/dequant: blocks of every format, and what the `gguf` package and NumPy say they are.

    python tests/oracle/make_dequant_fixtures.py [folder]

FORMAT.blocks     stored bytes: ROWS rows of COLS elements
FORMAT.floats     their dequantisation by the gguf package, float32 [ROWS, COLS]
round.floats      float32 values: ordinary, half way between two neighbours, subnormal, too large, infinite
round.f16         the same rounded by NumPy, round.bf16 by the gguf package
versions.json     what made them
"""

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np

ROWS, COLS = 3, 320
# Scales and minima that a block may hold: zeros of both signs, subnormal halves, the smallest and largest normal ones.
HALVES = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF], np.uint16)


def finite_halves(rng, count):
    bits = rng.integers(0, 1 << 16, count, np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits ^ 0x4000, bits).astype(np.uint16)
    return np.where(rng.random(count) < 0.3, rng.choice(HALVES, count), bits).astype(np.uint16)


def stored_bytes(rng, name):
    """Random bytes whose halves and floats are finite."""
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * COLS // elements
    if name == "F32":
        bits = rng.integers(0, 1 << 32, count, np.uint32)
        return np.where((bits & 0x7F800000) == 0x7F800000, bits ^ 0x40000000, bits).astype(np.uint32).view(np.uint8)
    if name == "BF16":
        bits = rng.integers(0, 1 << 16, count, np.uint16)
        return np.where((bits & 0x7F80) == 0x7F80, bits ^ 0x4000, bits).astype(np.uint16).view(np.uint8)
    if name == "F16":
        return finite_halves(rng, count).view(np.uint8)
    blocks = rng.integers(0, 256, (count, size), np.uint8)
    blocks[:, 0:2] = finite_halves(rng, count).view(np.uint8).reshape(count, 2)
    if name.endswith("_1"):
        blocks[:, 2:4] = finite_halves(rng, count).view(np.uint8).reshape(count, 2)
    return blocks.reshape(-1)


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
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "fixtures" / "dequant"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2511)
    for name in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        stored = stored_bytes(rng, name)
        floats = gguf.quants.dequantize(stored.reshape(ROWS, -1), gguf.GGMLQuantizationType[name])
        floats = np.ascontiguousarray(floats, np.float32)
        assert floats.shape == (ROWS, COLS) and np.isfinite(floats).all(), name
        stored.tofile(folder / f"{name}.blocks")
        floats.tofile(folder / f"{name}.floats")
    values = values_to_round(rng)
    values.tofile(folder / "round.floats")
    with np.errstate(over="ignore"):
        values.astype(np.float16).tofile(folder / "round.f16")
    gguf.quants.quantize(values.reshape(1, -1), gguf.GGMLQuantizationType.BF16).tofile(folder / "round.bf16")
    versions = {"python": platform.python_version(), "gguf": version("gguf"), "numpy": version("numpy"),
                "rows": ROWS, "cols": COLS}
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
