#!/usr/bin/env python3
"""Writes tests/fixtures/gguf/: small GGUF files made by the `gguf` package, and what its reader says is in them.

    python3 tests/oracle/make_gguf_fixtures.py tests/fixtures/gguf

FILE.expected has one line a metadata key (sorted) and one line a tensor (in file order):

    key NAME: KIND VALUE            KIND: bool, int, uint, float, string, or KIND[] and the values, one blank between
    tensor NAME: DTYPE [SHAPE] HEX  SHAPE outermost first; HEX the bytes as they lie in the file

Floats are written with "%.17g", bytes of strings outside printable ASCII (and the backslash) as \\xNN.
tests/checkpoint/gguf_test.cc renders what lockstep reads in the same way and compares the text.
"""
import importlib.metadata
import pathlib
import sys

import gguf
import numpy as np

V = gguf.GGUFValueType
Q = gguf.GGMLQuantizationType
TENSOR_TYPES = [Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0]

SCALARS = {
    "u8": (V.UINT8, 255), "i8": (V.INT8, -128), "u16": (V.UINT16, 65535), "i16": (V.INT16, -32768),
    "u32": (V.UINT32, 2**32 - 1), "i32": (V.INT32, -(2**31)), "u64": (V.UINT64, 2**64 - 1), "i64": (V.INT64, -(2**63)),
    "f32": (V.FLOAT32, 0.1), "f64": (V.FLOAT64, 1e-300), "yes": (V.BOOL, True), "no": (V.BOOL, False),
    "string": (V.STRING, "tab\t, quote \", naïve, 日本語, 🦙"), "empty": (V.STRING, ""),
}
ARRAYS = {
    "u8": (V.UINT8, [0, 1, 255]), "i8": (V.INT8, [-128, 127]), "u16": (V.UINT16, [65535]), "i16": (V.INT16, [-32768, 7]),
    "u32": (V.UINT32, [2**32 - 1, 0]), "i32": (V.INT32, [-(2**31), 2**31 - 1]), "u64": (V.UINT64, [2**63 - 1]),
    "i64": (V.INT64, [-(2**63), 2**63 - 1]), "f32": (V.FLOAT32, [0.1, -2.5e-7, 3.0]), "f64": (V.FLOAT64, [0.1, 1e300]),
    "bool": (V.BOOL, [True, False, False, True]), "string": (V.STRING, ["", "Ġthe", "\\", "a longer piece of text"]),
}


def add_metadata(writer):
    for name, (kind, value) in SCALARS.items():
        writer.add_key_value(f"test.{name}", value, kind)
    for name, (kind, values) in ARRAYS.items():
        writer.add_key_value(f"test.array.{name}", values, V.ARRAY, kind)


def add_tensors(writer, seed):
    """One tensor of each type, with 1 to 4 dimensions."""
    random = np.random.default_rng(seed)
    shapes = [(5,), (3, 7), (2, 3, 4), (2, 64), (3, 32), (2, 1, 32), (1, 2, 1, 32), (96,)]
    for kind, shape in zip(TENSOR_TYPES, shapes):
        values = random.standard_normal(shape, dtype=np.float32)
        writer.add_tensor(f"{kind.name.lower()}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def escaped(data):
    return "".join(chr(b) if 0x20 <= b <= 0x7E and b != 0x5C else f"\\x{b:02x}" for b in bytes(data))


def kind_of(value_type):
    name = value_type.name.lower()
    return {"b": "bool", "s": "string", "f": "float", "u": "uint", "i": "int"}[name[0]]


def shown(kind, part):
    if kind == "string":
        return escaped(part)
    value = part.tolist()[0]
    return "%.17g" % value if kind == "float" else str(value).lower()


def describe(path):
    """The lines of FILE.expected, from what GGUFReader says."""
    reader = gguf.GGUFReader(path)
    lines = []
    for name, field in sorted(reader.fields.items(), key=lambda item: item[0].encode()):
        if name.startswith("GGUF."):  # the reader's own names for parts of the header
            continue
        kind = kind_of(field.types[-1])
        values = " ".join(shown(kind, field.parts[i]) for i in field.data)
        is_array = field.types[0] == V.ARRAY
        if is_array and kind == "uint":
            kind = "int"  # lockstep keeps arrays of every integer type as int64
        lines.append(f"key {name}: {kind}{'[]' if is_array else ''} {values}")
    for tensor in reader.tensors:
        shape = ", ".join(str(extent) for extent in reversed(tensor.shape.tolist()))
        lines.append(f"tensor {tensor.name}: {tensor.tensor_type.name} [{shape}] {tensor.data.tobytes().hex()}")
    return lines


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)

    types = folder / "types.gguf"
    writer = gguf.GGUFWriter(types, "test")
    add_metadata(writer)
    add_tensors(writer, seed=1)
    write(writer)

    version_2 = bytearray(types.read_bytes())  # v2 and v3 differ in the number alone (v3 adds big-endian files)
    version_2[4] = 2
    (folder / "types_v2.gguf").write_bytes(version_2)

    writer = gguf.GGUFWriter(folder / "align64.gguf", "test")
    writer.add_custom_alignment(64)
    add_tensors(writer, seed=2)
    write(writer)

    writer = gguf.GGUFWriter(folder / "vocabulary_only.gguf", "test")
    add_metadata(writer)
    write(writer)

    writer = gguf.GGUFWriter(folder / "split.gguf", "test", split_max_tensors=3)
    add_tensors(writer, seed=3)
    write(writer)

    for path in sorted(folder.glob("*.gguf")):
        path.with_suffix(".expected").write_text("".join(line + "\n" for line in describe(path)), encoding="ascii")

    writer = gguf.GGUFWriter(folder / "iq2_xxs.gguf", "test")
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((2, 66), np.uint8), raw_dtype=Q.IQ2_XXS)
    write(writer)

    versions = "".join(f"{name} {importlib.metadata.version(name)}\n" for name in ("gguf", "numpy"))
    (folder / "versions.txt").write_text(f"made by tests/oracle/make_gguf_fixtures.py with\n{versions}")


if __name__ == "__main__":
    main()
