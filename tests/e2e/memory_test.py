#!/usr/bin/env python3
"""The memory of `generate`: at most the packed weights, the largest tensor and 30 MB, at every tensor-parallel size.

    memory_test.py LOCKSTEP FIXTURES VERSION [MODEL.gguf]

Without MODEL, a model of 142 MB of zeros is made, large enough that a second copy of the weights, or of the file in this
process's resident pages, breaks the bound. The peak is the kernel's (ru_maxrss, which is VmHWM); what of it is anonymous
memory and what file pages is read from /proc while the program runs. Packed weights are the weight_bytes of all ranks.
Not for sanitized builds, whose memory is another.
"""

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from program import BINARY, ProgramTest, main

ALLOWED = 30_000_000  # beyond the packed weights and the largest tensor
MODEL = Path(sys.argv.pop(4)) if len(sys.argv) > 4 and sys.argv[4].endswith(".gguf") else None
TOKENS = 128 if MODEL else 8

STRING, UINT32, FLOAT32 = 8, 4, 6
F32, F16 = 0, 1
HIDDEN, HEADS, FFN, LAYERS, VOCAB = 1024, 8, 4096, 4, 1000


def model_of_zeros(path):
    """A Llama of F16 zeros, its data a hole in the file."""
    numbers = {"block_count": LAYERS, "context_length": 2048, "embedding_length": HIDDEN, "feed_forward_length": FFN,
               "attention.head_count": HEADS, "attention.head_count_kv": HEADS}  # fmt: skip
    string = lambda text: struct.pack("<Q", len(text)) + text.encode()  # noqa: E731
    keys = [string("general.architecture") + struct.pack("<I", STRING) + string("llama")]
    keys += [string(f"llama.{name}") + struct.pack("<II", UINT32, value) for name, value in numbers.items()]
    keys.append(string("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", FLOAT32, 1e-5))
    shapes = {"token_embd": (HIDDEN, VOCAB), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.{name}_norm": (HIDDEN,) for name in ("attn", "ffn")}
        shapes |= {f"blk.{layer}.attn_{name}": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "output")}
        shapes |= {f"blk.{layer}.ffn_{name}": (HIDDEN, FFN) for name in ("gate", "up")}
        shapes[f"blk.{layer}.ffn_down"] = (FFN, HIDDEN)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys)
    offset = 0
    for name, sides in shapes.items():
        vector = len(sides) == 1
        head += string(f"{name}.weight") + struct.pack(f"<I{len(sides)}Q", len(sides), *sides)
        head += struct.pack("<IQ", F32 if vector else F16, offset)
        size = (4 if vector else 2) * sides[0] * (1 if vector else sides[1])
        offset += -(-size // 32) * 32
    path.write_bytes(head)
    os.truncate(path, -(-len(head) // 32) * 32 + offset)


def now(pid):
    """RssAnon and RssFile of a process, in bytes; None when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    lines = dict(line.split(":", 1) for line in status.splitlines())
    if "RssAnon" not in lines:
        return None
    return tuple(1024 * int(lines[key].split()[0]) for key in ("RssAnon", "RssFile"))


def measured(arguments, data_limit=None):
    """The report of `generate`, its peak, and the largest anonymous and file parts seen."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_DATA, (data_limit, data_limit))) if data_limit else None
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        command = [BINARY, *map(str, arguments), "--json", "--quiet"]
        running = subprocess.Popen(command, stdout=out, stderr=errors, preexec_fn=limit)
        anonymous = file = 0
        while (parts := now(running.pid)) is not None:
            anonymous, file = max(anonymous, parts[0]), max(file, parts[1])
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        return running.returncode, out.read(), errors.read().decode(), 1024 * usage.ru_maxrss, anonymous, file


class MemoryTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.large = MODEL
        if MODEL is None:
            cls.large = cls.folder / "zeros.gguf"
            model_of_zeros(cls.large)

    def plan(self, size):
        """Packed bytes of all ranks, and the bound for them."""
        tensors = self.json_of("inspect", "-m", self.large)["tensors"]
        ranks = self.json_of("inspect", "-m", self.large, "--tp-size", size)["ranks"]
        packed = sum(rank["weight_bytes"] for rank in ranks)
        return packed, packed + max(tensor["bytes"] for tensor in tensors) + ALLOWED

    def run_of(self, size):
        return ["generate", "-m", self.large, "--tokens", "1,2,3,4,5", "--ignore-eos", "-n", TOKENS, "--tp-size", size,
                "--threads", 2]  # fmt: skip

    def test_the_peak_is_bounded(self):
        for size in (1, 2, 4):
            packed, bound = self.plan(size)
            status, out, errors, peak, anonymous, file = measured(self.run_of(size))
            self.assertEqual(status, 0, errors)
            self.assertEqual(sum(rank["weight_bytes"] for rank in json.loads(out)["ranks"]), packed)
            print(f"tp {size}: packed {packed:,}, peak {peak:,}, of the allowed {bound:,}; most anonymous {anonymous:,}, "
                  f"most file pages {file:,}")  # fmt: skip
            self.assertLessEqual(peak, bound, f"size {size}")
            self.assertGreaterEqual(anonymous, packed, "what is measured is the program with its weights")
            self.assertLessEqual(file, ALLOWED, f"size {size}: the file is copied, not kept in resident pages")

    def test_the_bound_is_enough_as_a_limit(self):
        """`ulimit -d` counts private memory that is never touched too: stacks, buffers, the heap's reserve."""
        for size in (1, 2, 4):
            packed, bound = self.plan(size)
            status, _, errors, *_ = measured(self.run_of(size), data_limit=bound)
            self.assertEqual(status, 0, errors)
            status, _, errors, *_ = measured(self.run_of(size), data_limit=packed)
            self.assertEqual((status, errors.count("\n")), (1, 1), errors)
            self.assertIn(f"no memory for {size} ranks", errors)


if __name__ == "__main__":
    main()
