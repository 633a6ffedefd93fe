#!/usr/bin/env python3
"""What `inspect` says each rank holds: every weight once over all ranks, but for norms, small vectors and the KV heads
that query heads on several ranks read. Checked for the tiny models of all families, and for models of real sizes without
data.

With --table after its arguments, prints the table of docs/models.md instead."""

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

import real_shapes
from program import FIXTURES, ProgramTest, lockstep, main

PAGE = FIXTURES.parents[1] / "docs" / "models.md"
SIZES = (2, 4)
HEADING = "| shape of | N | total MB | MB of each rank | total / N | on several ranks, MB of a rank |"

# What may be on several ranks, by the tensor's name in either format.
VECTORS, KV_HEADS, BLOCKS = "norms and vectors", "KV heads", "blocks at cuts"
SHARED = (
    (VECTORS, r"norm\.weight$|layernorm\.weight$|layer_scalar$|layer_output_scale|rope_freqs"),
    (VECTORS, r"(o_proj|down_proj|attn_output|ffn_down)\.bias$"),
    (KV_HEADS, r"(k_proj|v_proj|attn_k|attn_v|attn_qkv|in_proj_qkv|conv1d)\.(weight|bias)$"),
    (BLOCKS, r"(o_proj|out_proj|attn_output|ssm_out|embed_tokens_per_layer|per_layer_token_embd)\.weight$"),
)


def kind_of(name):
    return next((kind for kind, pattern in SHARED if re.search(pattern, name)), None)


def inspect(model, size):
    done = lockstep("inspect", "-m", model, "--tp-size", size, "--json", "--quiet")
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def total_bytes(model):
    return inspect(model, 1)["ranks"][0]["weight_bytes"]


def shared_bytes(plan, rank):
    """Kind -> bytes of a rank that are on another as well."""
    kinds = {}
    for tensor in plan["tensors"]:
        if shared := tensor["slices"][rank]["shared_bytes"]:
            kind = kind_of(tensor["name"])
            kinds[kind] = kinds.get(kind, 0) + shared
    return kinds


def real_models(folder):
    """Name, folder of each."""
    for name, config in real_shapes.SHAPES.items():
        for mlx in (False, True):
            if mlx and name != "Llama 3.2 1B":
                continue
            path = Path(folder) / f"{name}{' mlx' if mlx else ''}"
            real_shapes.write(path, config, mlx)
            yield name + (", MLX 4-bit" if mlx else ""), path


def megabytes(count):
    return f"{count / 1e6:.1f}"


def table():
    lines = [HEADING, "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, model in real_models(folder):
            total = total_bytes(model)
            for size in SIZES:
                plan = inspect(model, size)
                ranks = [rank["weight_bytes"] for rank in plan["ranks"]]
                most = max(range(size), key=lambda rank: plan["ranks"][rank]["replicated_bytes"])
                shared = shared_bytes(plan, most)
                what = ", ".join(f"{kind} {megabytes(count)}" for kind, count in sorted(shared.items()))
                held = ", ".join(map(megabytes, ranks))
                cells = [name, str(size), megabytes(total), held, megabytes(total / size), what]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


class DivisionTest(ProgramTest):
    def check(self, model, size):
        """That the plan holds nothing twice but what is listed. Returns it."""
        whole, plan = inspect(model, 1), inspect(model, size)
        for one, tensor in zip(whole["tensors"], plan["tensors"], strict=True):
            name, slices = tensor["name"], tensor["slices"]
            self.assertEqual(one["name"], name)
            self.assertEqual(len(slices), size)
            if kind_of(name) is None:
                self.assertEqual(sum(part["bytes"] for part in slices), one["slices"][0]["bytes"], name)
                self.assertEqual(tensor["replicated"], [], name)
                end = 0
                for part in sorted((part for part in slices if part["begin"] < part["end"]), key=lambda s: s["begin"]):
                    self.assertEqual(part["begin"], end, name)
                    end = part["end"]
                self.assertEqual(end, one["slices"][0]["end"], name)
        for rank, held in enumerate(plan["ranks"]):
            parts = [tensor["slices"][rank] for tensor in plan["tensors"]]
            self.assertEqual(held["weight_bytes"], sum(part["bytes"] for part in parts))
            self.assertEqual(held["replicated_bytes"], sum(part["shared_bytes"] for part in parts))
            self.assertEqual(held["replicated_bytes"], sum(shared_bytes(plan, rank).values()))
        return plan

    def test_tiny_models_of_all_families(self):
        folders = sorted(path for path in (FIXTURES / "families").iterdir() if path.is_dir())
        self.assertGreater(len(folders), 50)
        checked = set()
        for folder in folders:
            model = folder / "model.gguf" if (folder / "model.gguf").exists() else folder
            most = self.json_of("inspect", "-m", model)["largest_tp_size"]
            for size in (size for size in SIZES if size <= most):
                with self.subTest(model=folder.name, size=size):
                    self.check(model, size)
                    checked.add((folder.name.split(".")[0], size))
        families = {folder.name.split(".")[0] for folder in folders}
        self.assertEqual({family for family, size in checked if size == 2}, families)

    def test_real_shapes(self):
        for name, model in real_models(self.folder):
            for size in SIZES:
                with self.subTest(model=name, size=size):
                    total, plan = total_bytes(model), self.check(model, size)
                    for held in plan["ranks"]:
                        # What nobody else has is close to a fair share: units are small beside such models.
                        self.assertLess(held["weight_bytes"] - held["replicated_bytes"], 1.02 * total / size)
                        self.assertLess(held["replicated_bytes"], 0.02 * total)

    def test_the_page_has_this_table(self):
        self.assertIn(table(), PAGE.read_text(), "run this file with --table and put what it prints in docs/models.md")


if __name__ == "__main__":
    if "--table" in sys.argv:
        sys.stdout.write(table())
    else:
        main()
