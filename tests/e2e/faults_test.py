#!/usr/bin/env python3
"""Whatever way a rank fails, and at whatever step: the command ends, says which rank, which step and why, and exits with 1.

    faults_test.py LOCKSTEP FIXTURES VERSION [--runs N] [--within SECONDS] [--seed S]

For each size and each kind of failure, N runs with a random rank and a random step. It prints how long after the stall
limit the slowest run of each ended, and fails over that only when asked to (--within), since a machine may be busy.
"""

import argparse
import random
import sys
import time

import program

STALL_S = 0.5
CAUSES = {
    "throw": "failed at step {step}: the fault a test asked for",
    "stall": "stalled at step {step}: no progress for",
    "exit": "stalled at step {step}: no progress for",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--within", type=float)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(sys.argv[4:])
    draw = random.Random(options.seed)
    model = program.FIXTURES / "tiny" / "gqa.gguf"
    wrong = []
    for size in (2, 3, 5):
        for kind, cause in CAUSES.items():
            slowest = 0.0
            for _ in range(options.runs):
                rank, step = draw.randrange(size), draw.randrange(60)
                begin = time.monotonic()
                done = program.lockstep(
                    "generate", "-m", model, "--tokens", "1,2,3", "-n", "60", "--ignore-eos", "--tp-size", size,
                    "--stall-ms", int(STALL_S * 1000), "--json", "--quiet",
                    LOCKSTEP_TEST_FAULT=f"{rank}:{step}:{kind}",
                )  # fmt: skip
                took = time.monotonic() - begin
                slowest = max(slowest, took - (0 if kind == "throw" else STALL_S))
                line = done.stderr
                if (
                    done.returncode != 1
                    or done.stdout
                    or line.count("\n") != 1
                    or f"rank {rank} {cause.format(step=step)}" not in line
                ):
                    wrong.append(f"{size} ranks, rank {rank}, step {step}, {kind}: status {done.returncode}, {line!r}")
            print(f"{size} ranks, {kind}: {options.runs} runs, at most {slowest:.2f} s after the limit", flush=True)
            if options.within is not None and slowest > options.within:
                wrong.append(f"{size} ranks, {kind}: {slowest:.2f} s after the limit")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
