#!/usr/bin/env python3
"""Real models beside llama.cpp: greedy tokens, tokenizer and perplexity.

    llamacpp_parity.py LOCKSTEP MODEL.gguf [MODEL.gguf ...]

For every model, with --activations f32 and with the default:

Greedy tokens. Five prompts are continued by 64 tokens. llama.cpp quantises activations to 8 bits and lockstep does not,
so where two tokens are nearly as likely the engines may choose differently. Noise is what the engines' logits of one
position differ by: the standard deviation over the vocabulary, for what all logits have in common changes no choice. A
place where the engines differ is printed with the two logits of both, and passes when either engine prefers its own token
by no more than GAP times the largest noise at the positions before. From there lockstep goes on with llama.cpp's token, so
that all 64 places are compared. lockstep's own choice must be the largest of the logits that it computes for the same
tokens in one prefill. At every position of prompts and answers the noise is at most NOISE of the standard deviation of
llama.cpp's logits.

Perplexity. 2,000 tokens of tests/fixtures/text/essay.txt in two windows. A window is the file's BOS token and 1,000
tokens, all of which are predicted and scored, the first one from BOS alone; nothing is kept from one window to the next.
The perplexity is exp of the mean negative log-probability, in float64. It lies within 0.5 % of llama.cpp's, at one rank
and at two.

The ids are llama.cpp's; lockstep's own are the same. Exit 1 when anything
fails.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from llamacpp import BATCH, LlamaCpp

TEXT = Path(__file__).resolve().parent.parent / "fixtures" / "text" / "essay.txt"
PROMPTS = (
    "The capital of France is",
    "When I opened the door of the old house, the first thing that I saw was",
    "Bread is made from flour, water, salt and yeast. To bake a loaf at home, first",
    "Dear Anna, thank you for your letter. I am sorry that I could not come to the wedding, but",
    "A rainbow appears in the sky because sunlight",
)
ANSWER = 64
WINDOW, WINDOWS = 1000, 2
GAP = 4
NOISE = 0.15  # 8-bit activations cost up to 0.09
PERPLEXITY_TOLERANCE = 0.005
RANKS = (1, 2)


class Lockstep:
    def __init__(self, binary, model, flags=()):
        self._command, self._model, self._flags = str(binary), str(model), list(flags)

    def run(self, command, *arguments):
        line = [self._command, command, "-m", self._model, "--json", "--quiet", *map(str, arguments)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"lockstep {command}: exit {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def tokenize(self, text):
        return self.run("tokenize", "-p", text)["tokens"]

    def generate(self, tokens, count):
        return self.run("generate", "--tokens", ",".join(map(str, tokens)), "-n", count, "--temp", 0, "--ignore-eos",
                        "--tp-size", RANKS[-1], *self._flags)["tokens"]  # fmt: skip

    def logits(self, tokens, file, tp_size):
        """float32 [tokens, vocab], mapped from the file: those of Gemma 3 are a gigabyte a window."""
        self.run("logits", "--tokens", ",".join(map(str, tokens)), "--out", file, "--tp-size", tp_size, *self._flags)
        return np.load(file, mmap_mode="r")


class Report:
    def __init__(self):
        self.passed = True

    def line(self, passed, text):
        self.passed &= bool(passed)
        print(f"{'ok  ' if passed else 'FAIL'} {text}", flush=True)


def greedy(reference, prompt):
    """llama.cpp's answer, and its logits at each position from the prompt's first, [prompt + answer - 1, vocab]."""
    reference.restart()
    rows = [np.array(reference.logits(prompt))]
    answer = [int(rows[0][-1].argmax())]
    while len(answer) < ANSWER:
        rows.append(np.array(reference.logits(answer[-1:])))
        answer.append(int(rows[-1][-1].argmax()))
    return answer, np.concatenate(rows)


def compare_answer(report, label, engine, prompt, answer, theirs, ours):
    """`theirs`, `ours`: logits of prompt and answer. Returns at how many places the engines chose differently."""
    noise = (ours - theirs).std(axis=1)
    part = (noise / theirs.std(axis=1)).max()
    report.line(part <= NOISE,
                f"{label}: logits differ by {noise.max():.3f}, {part:.3f} of their deviation (allowed {NOISE})")  # fmt: skip
    places, done = 0, 0
    while done < ANSWER:
        got = engine.generate(prompt + answer[:done], ANSWER - done)
        for token, expected in zip(got, answer[done:], strict=True):
            row = len(prompt) + done - 1
            done += 1
            if token != int(ours[row].argmax()):
                report.line(False, f"{label}: token {done}: decoding chose {token}, prefill {ours[row].argmax()}")
            if token == expected:
                continue
            places += 1
            gaps = ours[row][token] - ours[row][expected], theirs[row][expected] - theirs[row][token]
            before = noise[:row].max()
            report.line(max(gaps) <= GAP * before,
                        f"{label}: token {done}: lockstep chose {token}, llama.cpp {expected}; logits in lockstep "
                        f"{ours[row][token]:.3f} and {ours[row][expected]:.3f} (gap {gaps[0]:.3f}), in llama.cpp "
                        f"{theirs[row][token]:.3f} and {theirs[row][expected]:.3f} (gap {gaps[1]:.3f}; allowed "
                        f"{GAP * before:.3f}, {GAP} times what logits differ by before)")  # fmt: skip
            break
    return places


def negative_log_probabilities(logits, targets):
    """float64 [targets] of float32 [targets, vocab]."""
    rows = np.asarray(logits, np.float64)
    largest = rows.max(axis=1, keepdims=True)
    return np.log(np.exp(rows - largest).sum(axis=1)) + largest[:, 0] - rows[np.arange(len(targets)), targets]


def parts(window):
    """Slices of at most BATCH positions, each of which predicts the token after it."""
    return [slice(begin, min(begin + BATCH, len(window) - 1)) for begin in range(0, len(window) - 1, BATCH)]


def score(window, logits_of):
    """Negative log-probabilities of a window's tokens after its first. `logits_of`: slice -> logits of its positions."""
    return np.concatenate([negative_log_probabilities(logits_of(part), window[part.start + 1 : part.stop + 1])
                           for part in parts(window)])  # fmt: skip


def perplexity(losses):
    return float(np.exp(np.mean(np.concatenate(losses))))


def reference_perplexity(reference, windows):
    losses = []
    for window in windows:
        reference.restart()
        losses.append(score(window, lambda part, window=window: reference.logits(window[part])))
    return perplexity(losses)


def engine_perplexity(engine, windows, file, tp_size):
    losses = []
    for window in windows:
        logits = engine.logits(window[:-1], file, tp_size)
        losses.append(score(window, lambda part, logits=logits: logits[part]))
    return perplexity(losses)


def compare_model(report, binary, path, folder):
    name, plain = path.stem, Lockstep(binary, path)
    modes = {"f32": Lockstep(binary, path, ["--activations", "f32"]), "default": plain}
    reference = LlamaCpp(path, WINDOW + 1)
    print(f"     {name}: llama.cpp with {reference.system_info()}")
    text = TEXT.read_text()
    ids = reference.tokenize(text)
    prompts = [reference.tokenize(prompt, add_special=True) for prompt in PROMPTS]
    same = plain.tokenize(text) == ids
    same &= [plain.tokenize(prompt) for prompt in PROMPTS] == [reference.tokenize(prompt) for prompt in PROMPTS]
    report.line(same, f"{name}: the tokenizers give the same ids of {len(PROMPTS)} prompts and {len(ids)} tokens of {TEXT.name}")

    places = dict.fromkeys(modes, 0)
    for i, prompt in enumerate(prompts):
        answer, theirs = greedy(reference, prompt)
        for mode, engine in modes.items():
            ours = engine.logits(prompt + answer[:-1], folder / "logits.npy", RANKS[-1])
            label = f"{name} {mode}, prompt {i + 1}"
            places[mode] += compare_answer(report, label, engine, prompt, answer, theirs, ours)
    for mode, count in places.items():
        print(f"     {name} {mode}: the same greedy token at {len(PROMPTS) * ANSWER - count} of "
              f"{len(PROMPTS) * ANSWER} places")  # fmt: skip

    if len(ids) < WINDOWS * WINDOW:
        raise SystemExit(f"{TEXT} is {len(ids)} tokens, at least {WINDOWS * WINDOW} are wanted")
    windows = [[reference.bos, *ids[i * WINDOW : (i + 1) * WINDOW]] for i in range(WINDOWS)]
    theirs = reference_perplexity(reference, windows)
    for mode, engine in modes.items():
        for tp_size in RANKS if mode == "default" else RANKS[-1:]:
            ours = engine_perplexity(engine, windows, folder / "logits.npy", tp_size)
            report.line(abs(ours / theirs - 1) <= PERPLEXITY_TOLERANCE,
                        f"{name} {mode} tp {tp_size}: perplexity {ours:.4f}, llama.cpp {theirs:.4f}: "
                        f"{100 * (ours / theirs - 1):+.3f} % (allowed {100 * PERPLEXITY_TOLERANCE} %)")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description="Compares lockstep with llama.cpp on real models.")
    parser.add_argument("binary", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    args = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        for path in args.models:
            compare_model(report, args.binary, path, Path(folder))
    sys.exit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
