"""How long does loading take, how much is read, and how much memory does it need?

    python bench/load.py LOCKSTEP [--cache DIR] [--runs 5] [--formats bf16,mlx4]

Makes random models of the shape of Llama 3.2 1B in DIR, once (mlx, 2.5 GB and 0.7 GB): `bf16` as Hugging Face saves it, in
three files with an index, `mlx4` as mlx-lm saves 4 bits in groups of 64. Then loads each from a warm page cache with one
rank and with two, in turns with `cat FILES > /dev/null` and with `copy`, and prints the medians. `cat` copies into a small
buffer, over and over; `copy` does the least that a loader must: one thread reads the files into fresh memory. Bytes read come from the report of
`generate`, the process's from /proc/PID/io; peak memory is VmHWM, the anonymous part polled. A measurement, not a test:
the machine may be busy.
"""

import argparse
import json
import mmap
import os
import statistics
import subprocess
import time
from pathlib import Path

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 16, 2048, 8192, 32, 8, 64, 128256
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "max_position_embeddings": 131072,
    "model_type": "llama",
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-5,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": VOCAB,
}
GROUP, BITS = 64, 4
FILES = 3
FORMATS = ("bf16", "mlx4")


def shapes():
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for i in range(LAYERS):
        stem = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{stem}{name}.weight", (HIDDEN,)
        yield f"{stem}self_attn.q_proj.weight", (HEADS * HEAD_DIM, HIDDEN)
        yield f"{stem}self_attn.k_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield f"{stem}self_attn.v_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield f"{stem}self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_DIM)
        yield f"{stem}mlp.gate_proj.weight", (FFN, HIDDEN)
        yield f"{stem}mlp.up_proj.weight", (FFN, HIDDEN)
        yield f"{stem}mlp.down_proj.weight", (HIDDEN, FFN)
    yield "model.norm.weight", (HIDDEN,)


def make(folder, form):
    """One file's tensors are in memory at a time. config.json comes last, so that a folder with it is whole."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    mx.random.seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    names = dict(shapes())
    files = FILES if form == "bf16" else 1
    portion = sum(rows * (cols[0] if cols else 1) for rows, *cols in names.values()) / files
    weight_map, tensors, elements, file = {}, {}, 0, 1
    label = "model-{:05d}-of-{:05d}.safetensors" if files > 1 else "model.safetensors"

    def save():
        nonlocal tensors, elements, file
        mx.save_safetensors(str(folder / label.format(file, files)), tensors, metadata={"format": "pt"})
        tensors, elements, file = {}, 0, file + 1

    for name, shape in names.items():
        norm = len(shape) == 1
        value = (mx.ones(shape) if norm else mx.random.normal(shape) * 0.02).astype(mx.bfloat16)
        if form == "mlx4" and not norm:
            stem = name.removesuffix("weight")
            parts = zip(("weight", "scales", "biases"), mx.quantize(value, GROUP, BITS), strict=True)
            tensors |= {stem + part: array for part, array in parts}
        else:
            tensors[name] = value
        mx.eval(tensors)
        weight_map[name] = label.format(file, files)
        elements += value.size
        if elements >= portion and file < files:
            save()
    save()
    if files > 1:
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    quantization = {"quantization": {"group_size": GROUP, "bits": BITS}} if form == "mlx4" else {}
    (folder / "config.json").write_text(json.dumps(CONFIG | quantization, indent=2))


def seconds_of_cat(files):
    begin = time.perf_counter()
    with open(os.devnull, "wb") as sink:
        subprocess.run(["cat", *files], stdout=sink, check=True)
    return time.perf_counter() - begin


def seconds_of_copy(files):
    begin = time.perf_counter()
    copies = []
    for file in files:
        copies.append(mmap.mmap(-1, file.stat().st_size))
        with open(file, "rb", buffering=0) as source:
            view = memoryview(copies[-1])
            while len(view) > 0:
                view = view[source.readinto(view[: 1 << 20]) :]
    return time.perf_counter() - begin


def status(pid):
    """Numbers of /proc/PID/status and /proc/PID/io, in bytes."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, value = line.split(":", 1)
        if value.endswith(" kB"):
            found[key] = int(value.split()[0]) * 1024
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        key, value = line.split(":", 1)
        found[key] = int(value)
    return found


def load(program, folder, ranks):
    """The report of generate without a token, and the most of what /proc showed."""
    command = [program, "generate", "-m", folder, "--tokens", "1", "-n", "1", "--ctx", "8", "--json", "--quiet",
               "--tp-size", str(ranks)]  # fmt: skip
    most = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            try:
                for key, value in status(process.pid).items():
                    most[key] = max(most.get(key, 0), value)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                break  # it has just ended
            time.sleep(0.005)
        report = json.loads(process.stdout.read())
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {process.returncode}")
    return report, most


def measure(program, folder, form, runs):
    files = sorted(folder.glob("*.safetensors"))
    size = sum(file.stat().st_size for file in files)
    seconds_of_cat(files)
    others = {"cat": seconds_of_cat, "copy": seconds_of_copy}
    seconds, reports = {name: [] for name in (*others, 1, 2)}, {}
    for _ in range(runs):
        for name, found in seconds.items():
            if name in others:
                found.append(others[name](files))
                continue
            reports[name] = load(program, folder, name)
            found.append(reports[name][0]["load_s"])
    base = statistics.median(seconds["cat"])
    print(f"{form}: {size / 1e6:.1f} MB in {len(files)} file{'s' * (len(files) > 1)}")
    for name, found in seconds.items():
        median = statistics.median(found)
        print(f"  {name if name in others else f'tp {name}':<5} {median:.3f} s ({min(found):.3f} to {max(found):.3f}), "
              f"{size / median / 1e9:.1f} GB/s, {median / base:.2f} times cat")  # fmt: skip
    for ranks, (report, most) in reports.items():
        of_ranks = ", ".join(f"{rank['read_bytes'] / 1e6:.1f} read, {rank['weight_bytes'] / 1e6:.1f} held"
                             for rank in report["ranks"])  # fmt: skip
        print(f"  tp {ranks}  MB of each rank: {of_ranks}; of the process: {most['rchar'] / 1e6:.1f} read, "
              f"peak {most['VmHWM'] / 1e6:.1f}, of which {most['RssAnon'] / 1e6:.1f} anonymous")  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "lockstep")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"default: {','.join(FORMATS)}")
    arguments = parser.parse_args()
    for form in arguments.formats.split(","):
        folder = arguments.cache / f"random-llama-1b-{form}"
        if not (folder / "config.json").exists():
            make(folder, form)
        measure(arguments.program, folder, form, arguments.runs)


if __name__ == "__main__":
    main()
