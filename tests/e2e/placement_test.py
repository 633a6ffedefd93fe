#!/usr/bin/env python3
"""Where threads run, asked from the system while the program is at work: under taskset, with and without pinning."""

import fcntl
import os
import re
import subprocess
import threading

from program import BINARY, ProgramTest, main


def parse_processors(text):
    """[0, 1, 2, 8] of "0-2,8"."""
    processors = []
    for run in text.split(","):
        first, _, last = run.partition("-")
        processors += range(int(first), int(last or first) + 1)
    return processors


def planned_threads(log):
    """{"rank0.0": {0}, ...} as the log line has it."""
    plan = {}
    pattern = r"ranks? (\d+)(?:-(\d+))?: nodes? [\d,-]+, (\d+) threads?(?: each)? (on|sharing) processors? ([\d,-]+)"
    for first, last, threads, how, listed in re.findall(pattern, log):
        processors = parse_processors(listed)
        for rank in range(int(first), int(last or first) + 1):
            for thread in range(int(threads)):
                plan[f"rank{rank}.{thread}"] = {processors[thread]} if how == "on" else set(processors)
    return plan


class PlacementTest(ProgramTest):
    def observe(self, *arguments, threads, under=()):
        """The log line, and {name of thread: processors} of the ranks' threads while the program is at work."""
        command = [*under, BINARY, "generate", "-m", self.model, "-p", "x", "-n", "200", "--ignore-eos", *arguments]
        full, no_room = os.pipe()  # which nobody reads: the program waits with its first word
        os.write(no_room, b"." * fcntl.fcntl(no_room, fcntl.F_GETPIPE_SZ))
        with subprocess.Popen(list(map(str, command)), stdout=no_room, stderr=subprocess.PIPE, text=True) as run:
            stop = threading.Timer(60, run.kill)  # in case the line never comes
            stop.start()
            log = next((line for line in run.stderr if "[info]" in line), "")  # all have loaded by then
            stop.cancel()
            found = {}
            for task in os.listdir(f"/proc/{run.pid}/task"):
                with open(f"/proc/{run.pid}/task/{task}/comm") as name:
                    found[name.read().strip()] = os.sched_getaffinity(int(task))
            run.kill()
        os.close(full)
        os.close(no_room)
        ranks = {name: processors for name, processors in found.items() if name.startswith("rank")}
        self.assertEqual(len(ranks), threads, found)
        return log, ranks

    def test_every_thread_is_where_the_log_says(self):
        allowed = os.sched_getaffinity(0)
        for ranks, threads in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1)):
            log, found = self.observe("--tp-size", ranks, "--threads", threads, threads=ranks * threads)
            self.assertEqual(found, planned_threads(log), log)
            self.assertLessEqual(set().union(*found.values()), allowed)

    def test_under_taskset(self):
        """Nothing leaves the one processor that is allowed; the first one is not it, where there is another."""
        only = max(os.sched_getaffinity(0))
        for size in ("auto", "2", "3"):
            threads = 1 if size == "auto" else int(size)
            log, found = self.observe("--tp-size", size, threads=threads, under=("taskset", "-c", only))
            self.assertEqual(set(map(frozenset, found.values())), {frozenset({only})})
            self.assertEqual(found, planned_threads(log), log)

    def test_without_pinning(self):
        log, found = self.observe("--tp-size", "2", "--threads", "2", "--no-pin", threads=4)
        self.assertIn("4 threads, not pinned", log)
        self.assertEqual(set(map(frozenset, found.values())), {frozenset(os.sched_getaffinity(0))})

    def test_one_line_says_where(self):
        """At the default level; none on standard output, none with --quiet, none from verify."""
        run = ["generate", "-m", self.model, "-p", "x", "-n", "1", "--tp-size", "2", "--threads", "1", "--json"]
        done = self.succeed(*run)
        lines = [line for line in done.stderr.splitlines() if "rank 0: node" in line or "ranks 0-1: node" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn("[info]", lines[0])
        self.assertIn("tp 2", lines[0])
        self.assertNotIn(b"node", done.stdout)
        self.assertNotIn("node", self.succeed(*run, "--log-level", "warn").stderr)
        self.assertEqual(self.succeed(*run, "--quiet").stderr, "")
        self.assertNotIn("[info]", self.succeed("verify", "-m", self.model, "--tp-sizes", "1,2").stderr)

    def test_the_stall_limit_is_the_flags(self):
        for command in (["generate", "--tp-size", "2"], ["logits", "--tp-size", "2"], ["verify", "--tp-sizes", "2"]):
            self.refuse(1, ["rank 1 stalled", "limit 0.7 s"], *command, "-m", self.ids_only, "--tokens", "1", "--quiet",
                        "--stall-ms", "700", LOCKSTEP_TEST_FAULT="1:0:stall")  # fmt: skip
        for value in ("99", "3600001", "0", "x"):
            self.refuse(2, ["--stall-ms", value, "from 100 to 3600000"] if value != "x" else ["--stall-ms", "'x'"],
                        "generate", "-m", self.ids_only, "--tokens", "1", "--stall-ms", value)  # fmt: skip


if __name__ == "__main__":
    main()
