#!/usr/bin/env python3
"""Writes tests/fixtures/split/: the tiny model `output` as a split of three files, divided by the `gguf` package.

    python3 tests/oracle/make_split_fixture.py tests/fixtures/tiny/output.gguf tests/fixtures/split

The metadata and the tensors are those of the whole file as the package's reader gives them, so a run of the split must say
what a run of the whole says (tests/e2e/split_test.py).
"""
import importlib.metadata
import pathlib
import sys

import gguf

TENSORS_A_FILE = 8  # of 21


def main():
    whole, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(whole)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(folder / whole.name, architecture, split_max_tensors=TENSORS_A_FILE)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        items = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(name, field.contents(), field.types[0], items)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    versions = "".join(f"{name} {importlib.metadata.version(name)}\n" for name in ("gguf", "numpy"))
    (folder / "versions.txt").write_text(f"made by tests/oracle/make_split_fixture.py with\n{versions}")


if __name__ == "__main__":
    main()
