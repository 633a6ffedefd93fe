"""Do ranks work at the same time, and is communication what the plan says?

    python bench/ranks.py LOCKSTEP TESTING_LOCKSTEP MODEL.gguf [--runs 7]

Decodes with one rank and with two, one thread each, in alternating runs, and prints the medians and their ratio. Then adds
500 us to every site (TESTING_LOCKSTEP is the program of the testing preset) and compares the growth of a token's time with
the number of sites that `inspect` lists. Standard library only; a measurement, not a test: the machine may be busy.
"""

import argparse
import json
import os
import statistics
import subprocess

DELAY_US = 500


def run(program, *arguments, **environment):
    out = subprocess.run(
        [program, *arguments, "--json", "--quiet"], capture_output=True, check=True, env={**os.environ, **environment}
    )
    return json.loads(out.stdout)


def decode(program, model, ranks, flags=(), **environment):
    """Tokens a second."""
    report = run(
        program, "generate", "-m", model, "--tp-size", str(ranks), "--threads", "1", "-p", "The sea", "-n", "64",
        "--ignore-eos", *flags, **environment
    )  # fmt: skip
    return report["decode_tok_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("testing_program")
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()

    rates = {1: [], 2: []}
    for _ in range(arguments.runs):
        for ranks, found in rates.items():
            found.append(decode(arguments.program, arguments.model, ranks))
    medians = {ranks: statistics.median(found) for ranks, found in rates.items()}
    for ranks, found in rates.items():
        print(f"tp {ranks}: median {medians[ranks]:.1f} tokens/s of " + " ".join(f"{rate:.1f}" for rate in found))
    print(f"two ranks against one: {medians[2] / medians[1]:.2f} times")

    for embedding, head in (("vocab_parallel", "vocab_parallel"), ("replicated", "replicated")):
        flags = ("--tp-embedding-mode", embedding, "--tp-lm-head-mode", head)
        sites = len(run(arguments.program, "inspect", "-m", arguments.model, "--tp-size", "2", *flags)["sites"])
        plain, delayed = [], []
        for _ in range(arguments.runs):
            plain.append(1 / decode(arguments.testing_program, arguments.model, 2, flags))
            delay = {"LOCKSTEP_TEST_COMM_DELAY_US": str(DELAY_US)}
            delayed.append(1 / decode(arguments.testing_program, arguments.model, 2, flags, **delay))
        growth = (statistics.median(delayed) - statistics.median(plain)) * 1e3
        expected = sites * DELAY_US * 1e-3
        print(
            f"{sites} sites, {DELAY_US} us more at each: {growth:.2f} ms a token more, "
            f"{growth / expected:.3f} of {expected:.1f} ms"
        )


if __name__ == "__main__":
    main()
