"""Encoding speed beside Hugging Face `tokenizers`, one thread each: 10 MB of mixed text, medians of alternating runs.

    python bench/compare/tokenizers_bench.py TOKENIZE_BENCH TOKENIZER... [--runs 5] [--megabytes 10]

TOKENIZE_BENCH is the program built from bench/tokenize_bench.cc. TOKENIZER is a tokenizer.json or tokenizer.json.xz. The text
is the generator's of tests/oracle/tokenizer_strings.py: a third prose, a third code, a third strings of all scripts, as documents
of about 10 kB, which both sides encode one after another with special tokens as text. Prints a Markdown table.
"""

import argparse
import lzma
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "oracle"))

import tokenizer_oracle as oracle  # noqa: E402
import tokenizer_strings  # noqa: E402
from tokenizers import Tokenizer, models, normalizers  # noqa: E402


def documents(size, seed=1):
    made = tokenizer_strings.Strings(seed, ["<|im_start|>"])
    reference = Tokenizer(models.BPE())
    reference.normalizer = normalizers.NFC()
    newer = oracle.unknown_to_normalizer(reference)  # characters about which the two sides may differ
    sources = [
        lambda: made.rng.choice(tokenizer_strings.PROSE) + " ",
        lambda: made.rng.choice(tokenizer_strings.CODE),
        made.string,
    ]
    texts, total = [], 0
    while total < size:
        source, text = sources[len(texts) % 3], ""
        while len(text.encode()) < 10_000:
            text += source()
        text = oracle.without(text, newer)
        texts.append(text)
        total += len(text.encode())
    return texts, total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("tokenizers", nargs="+", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=10)
    arguments = parser.parse_args()
    texts, size = documents(int(arguments.megabytes * 1e6))
    print("| tokenizer | lockstep MB/s | Hugging Face MB/s | ratio | lockstep load s | Hugging Face load s |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder) / "corpus"
        corpus.write_bytes(b"\0".join(text.replace("\0", " ").encode() for text in texts))
        for path in arguments.tokenizers:
            file = pathlib.Path(folder) / "tokenizer.json"
            file.write_bytes(lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes())
            ours, theirs, our_load, their_load = [], [], [], []
            for _ in range(arguments.runs):
                out = subprocess.run([arguments.program, file, corpus], capture_output=True, check=True).stdout.split()
                our_load.append(float(out[0]))
                ours.append(size / 1e6 / float(out[1]))
                begin = time.perf_counter()
                tokenizer = Tokenizer.from_file(str(file))
                their_load.append(time.perf_counter() - begin)
                tokenizer.encode_special_tokens = True
                count = 0
                begin = time.perf_counter()
                for text in texts:
                    count += len(tokenizer.encode(text.replace("\0", " "), add_special_tokens=False))
                theirs.append(size / 1e6 / (time.perf_counter() - begin))
            if count != int(out[2]):
                sys.exit(f"{path}: {out[2].decode()} tokens, {count} expected")
            a, b, c, d = map(statistics.median, (ours, theirs, our_load, their_load))
            name = path.parent.name if path.name.startswith("tokenizer.json") else path.name
            print(f"| {name} | {a:.1f} | {b:.1f} | {a / b:.1f} | {c:.2f} | {d:.2f} |", flush=True)


if __name__ == "__main__":
    main()
