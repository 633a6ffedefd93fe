#!/usr/bin/env python3
"""Writes tests/fixtures/safetensors/: small checkpoints made by the `safetensors` package and MLX, and what is in them.

    python3 tests/oracle/make_safetensors_fixtures.py tests/fixtures/safetensors

plain/    every dtype that the package writes, in one file, with nested config.json and generation_config.json
sharded/  two shards and their index
mlx/      matrices quantised by mlx.core.quantize in every mode, each named in config.json by an entry of its own

FOLDER.expected has one line a metadata key (sorted) and one line a tensor (in file order):

    key NAME: KIND VALUE               KIND: bool, int, uint, float, string, or KIND[] and the values, one blank between
    tensor NAME: DTYPE [SHAPE] HEX...  SHAPE outermost first; HEX the bytes as they lie in the file, of each part
    unusable NAME: DTYPE [SHAPE] HEX   a tensor whose dtype no weight can have

mlx.floats holds, in the order of mlx.expected, mlx.core.dequantize of every matrix, its scales and biases cast to
float32 before. Floats of keys are written with "%.17g".
"""

import importlib.metadata
import json
import pathlib
import sys

import mlx.core as mx
import numpy as np
import safetensors

ROWS, COLS = 5, 512
PLAIN = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
OTHER = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3",
         "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32", "float64": "F64", "int64": "I64",
         "uint64": "U64"}
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "negative": -3, "rms_norm_eps": 1e-05, "huge": 2**63, "tie": False,
    "none": None, "name": "gr\u00fc\u00df \u6f22\n", "layer_types": ["full", "sliding"], "ids": [1, -2],
    "factors": [1, 2.5], "flags": [True, False], "empty": [], "nothing": {}, "mixed": [1, "a"], "deep": [[1], [2]],
    "objects": [{"a": 1}], "with_null": [1, None],
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "more": {"inside": 7}},
}
GENERATION = {"eos_token_id": [2, 3], "temperature": 0.6, "do_sample": True}


def size_of(dtype):
    return 1 if dtype == "bool" or "8" in dtype else int("".join(c for c in dtype if c.isdigit())) // 8


def serialized(names_and_dtypes, rng, metadata=None):
    """A file with tensors of random bytes, of several shapes."""
    specs, alive = {}, []
    for i, (name, dtype) in enumerate(names_and_dtypes):
        shape = [[3, 4], [5], [2, 1, 3], []][i % 4]
        data = rng.integers(0, 256, int(np.prod(shape, dtype=int)) * size_of(dtype), np.uint8)
        alive.append(data)
        specs[name] = safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
    return bytes(safetensors.serialize(specs, metadata=metadata))


def kind(value):
    if isinstance(value, bool):
        return "bool", "true" if value else "false"
    if isinstance(value, int):
        return ("uint" if value >= 0 else "int"), str(value)
    if isinstance(value, float):
        return "float", "%.17g" % value
    text = "".join(c if " " <= c <= "~" and c != "\\" else "".join(f"\\x{b:02x}" for b in c.encode()) for c in value)
    return "string", text


def listed(value):
    return value if isinstance(value, list) else []


def keys(config, prefix=""):
    """The lines of a JSON object as docs of src/checkpoint/hf_config.h say: dots, and a mark for what has no one kind."""
    for name, value in config.items():
        name = prefix + name
        if isinstance(value, dict) and value:
            yield from keys(value, name + ".")
        elif isinstance(value, dict) or any(v is None or isinstance(v, (dict, list)) for v in listed(value)):
            yield f"key {name}: list:unreadable"
        elif isinstance(value, list):
            kinds = {kind(v)[0].replace("uint", "int") for v in value}
            if kinds == {"int", "float"}:
                value, kinds = [float(v) for v in value], {"float"}
            if len(kinds) == 1:
                yield f"key {name}: {kinds.pop()}[] {' '.join(kind(v)[1] for v in value)}"
            elif kinds:
                yield f"key {name}: list:unreadable"
        elif value is not None:
            yield f"key {name}: {' '.join(kind(value))}"


def read_back(path):
    """The tensors as the package's reader gives them, in file order."""
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return sorted(safetensors.deserialize(data), key=lambda item: header[item[0]]["data_offsets"])


def line_of(name, dtype, shape, *parts):
    return f"{name}: {dtype} [{', '.join(map(str, shape))}] {' '.join(bytes(p).hex() for p in parts)}"


def describe(config, generation, paths):
    lines = sorted([*keys(config), *keys(generation, "generation.")])
    tensors = [item for path in paths for item in read_back(path)]
    usable = [t for t in tensors if t[1]["dtype"] in PLAIN.values()]
    lines += ["tensor " + line_of(n, t["dtype"], t["shape"], t["data"]) for n, t in usable]
    lines += ["unusable " + line_of(n, t["dtype"], t["shape"], t["data"]) for n, t in tensors if (n, t) not in usable]
    return lines


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def make_plain(folder, rng):
    folder.mkdir(exist_ok=True)
    names = [(f"layer.{d}.\u6f22", d) for d in [*PLAIN, *OTHER]] + [("vector", "float32"), ("matrix", "bfloat16")]
    (folder / "model.safetensors").write_bytes(
        serialized(names, rng, {"note": 'a "quoted" note'}))
    write_json(folder / "config.json", CONFIG)
    write_json(folder / "generation_config.json", GENERATION)
    return describe(CONFIG, GENERATION, [folder / "model.safetensors"])


def make_sharded(folder, rng):
    folder.mkdir(exist_ok=True)
    paths, weight_map = [], {}
    for i in (1, 2):
        path = folder / f"model-0000{i}-of-00002.safetensors"
        names = [(f"part{i}.{d}", d) for d in PLAIN]
        path.write_bytes(serialized(names, rng))
        weight_map.update({name: path.name for name, _ in names})
        paths.append(path)
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": 0}, "weight_map": weight_map})
    write_json(folder / "config.json", {"model_type": "llama"})
    return describe({"model_type": "llama"}, {}, paths)


def quantised_formats():
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            for dtype, name in ((mx.float16, "F16"), (mx.bfloat16, "BF16"), (mx.float32, "F32")):
                yield f"MLX affine{bits}/{group} {name}", "affine", bits, group, dtype
    yield "MLX mxfp4", "mxfp4", 4, 32, mx.bfloat16
    yield "MLX mxfp8", "mxfp8", 8, 32, mx.bfloat16
    yield "MLX nvfp4", "nvfp4", 4, 16, mx.bfloat16


def raw(array):
    return bytes(memoryview(array.view(mx.uint8)))


def make_mlx(folder, floats_path):
    folder.mkdir(exist_ok=True)
    mx.random.seed(4)
    quantization = {"group_size": 64, "bits": 4, "plain": False}
    stored, described, floats = {}, {}, {}
    for i, (format_name, mode, bits, group, dtype) in enumerate(quantised_formats()):
        weight = mx.random.normal((ROWS, COLS)).astype(dtype)
        codes, scales, *biases = mx.quantize(weight, group_size=group, bits=bits, mode=mode)
        module = f"layers.{i:02}.proj"
        stored[module + ".weight"] = codes
        stored[module + ".scales"] = scales
        wide = [scales] if mode != "affine" else [scales.astype(mx.float32)]
        if biases:
            stored[module + ".biases"] = biases[0]
            wide.append(biases[0].astype(mx.float32))
        quantization[module] = {"group_size": group, "bits": bits} | ({} if mode == "affine" else {"mode": mode})
        whole = mx.dequantize(codes, *wide, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        assert whole.dtype == mx.float32 and whole.shape == (ROWS, COLS)
        name = module + ".weight"
        described[name] = "tensor " + line_of(name, format_name, [ROWS, COLS], *map(raw, [scales, *biases, codes]))
        floats[name] = np.array(whole)
    stored["plain.weight"] = mx.random.normal((2, 64)).astype(mx.bfloat16)
    described["plain.weight"] = "tensor " + line_of("plain.weight", "BF16", [2, 64], raw(stored["plain.weight"]))
    mx.save_safetensors(str(folder / "model.safetensors"), stored, metadata={"format": "mlx"})
    write_json(folder / "config.json", {"quantization": quantization, "quantization_config": quantization})
    order = [name for name, _ in read_back(folder / "model.safetensors") if name in described]
    floats_path.write_bytes(b"".join(floats[name].astype("<f4").tobytes() for name in order if name in floats))
    config = {"quantization": quantization, "quantization_config": quantization}
    return [*sorted(keys(config)), *(described[name] for name in order)]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    expected = {
        "plain": make_plain(folder / "plain", rng),
        "sharded": make_sharded(folder / "sharded", rng),
        "mlx": make_mlx(folder / "mlx", folder / "mlx.floats"),
    }
    for name, lines in expected.items():
        (folder / f"{name}.expected").write_text("".join(line + "\n" for line in lines))
    versions = "".join(f"{name} {importlib.metadata.version(name)}\n" for name in ("mlx", "numpy", "safetensors"))
    (folder / "versions.txt").write_text(f"made by tests/oracle/make_safetensors_fixtures.py with\n{versions}")


if __name__ == "__main__":
    main()
