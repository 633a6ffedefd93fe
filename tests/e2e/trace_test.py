#!/usr/bin/env python3
"""--trace FILE: a file that viewers open, there also after a failure, and no different result.

Standard library only. What the zones say is checked in tests/engine/trace_test.cc.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from program import BINARY, ProgramTest, lockstep, main

TOOL = Path(__file__).parents[2] / "tools" / "trace_to_svg.py"


class TraceTest(ProgramTest):
    def setUp(self):
        self.out = self.folder / "trace.json"
        self.out.unlink(missing_ok=True)
        self.run_two = ["generate", "-m", self.ids_only, "--tokens", "5,6,7,8", "-n", "12", "--tp-size", "2"]

    def events(self):
        return json.loads(self.out.read_text())["traceEvents"]

    @staticmethod
    def has_open_file_in(folder, pid):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if os.readlink(descriptor).startswith(str(folder)):
                    return True
            except FileNotFoundError:  # closed meanwhile
                pass
        return False

    def test_generate(self):
        plain = self.json_of(*self.run_two)
        traced = self.json_of(*self.run_two, "--trace", self.out)
        for key in ("text", "tokens", "logits_sha256"):
            self.assertEqual(traced[key], plain[key])
        events = self.events()
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(list(names.values()), ["rank 0", "rank 1"])
        for thread, rank in zip(names, traced["ranks"], strict=True):
            zones = [e for e in events if e["ph"] == "X" and e["tid"] == thread and "step" in e["args"]]
            self.assertEqual({e["args"]["step"] for e in zones}, set(range(12)))
            seconds = {}
            for zone in zones:
                key = "step" if zone["name"] == "step" else zone["cat"]
                seconds[key] = seconds.get(key, 0) + zone["dur"] * 1e-6
            for found, reported in (
                (seconds.get("wait", 0), rank["wait_s"]),
                (seconds["comm"] - seconds.get("wait", 0), rank["comm_s"]),
                (seconds["step"] - seconds["comm"], rank["compute_s"]),
            ):
                self.assertAlmostEqual(found, reported, delta=0.01 * reported)
        self.assertEqual(list(self.folder.glob("trace.json*")), [self.out])  # nothing else is left there

    def test_logits(self):
        plain = self.json_of("logits", *self.run_two[1:5])
        self.assertEqual(self.json_of("logits", *self.run_two[1:5], "--trace", self.out), plain)
        self.assertIn("attend", {e["name"] for e in self.events()})

    def test_two_files_cannot_be_one(self):
        out = self.folder / "both"
        self.refuse(2, ["--out", "--trace"], "logits", *self.run_two[1:5], "--out", out, "--trace", f"{self.folder}/./both")
        self.assertFalse(out.exists())

    def test_a_failed_run_waits_for_no_reader(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.refuse(1, ["rank 1"], *self.run_two, "--quiet", "--trace", pipe, LOCKSTEP_TEST_FAULT="1:0:throw")

    def test_a_run_that_is_killed_leaves_nothing(self):
        folder = self.folder / "killed"
        folder.mkdir()
        command = [BINARY, *map(str, self.run_two), "--ignore-eos", "--trace", str(folder / "trace.json")]
        environment = os.environ | {"LOCKSTEP_TEST_COMM_DELAY_US": "20000"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            while not self.has_open_file_in(folder, running.pid):
                self.assertIsNone(running.poll())
                time.sleep(0.01)
            running.terminate()
        self.assertEqual(list(folder.iterdir()), [])

    def test_the_target_keeps_its_mode_and_links_are_followed(self):
        self.out.write_text("old")
        self.out.chmod(0o600)
        link, dangling, loop = (self.folder / name for name in ("link", "dangling", "loop"))
        link.symlink_to(self.out.name)
        dangling.symlink_to("not yet there")
        loop.symlink_to("loop")
        self.json_of(*self.run_two, "--trace", link)
        self.assertTrue(link.is_symlink())
        self.assertTrue(self.events())
        self.assertEqual(self.out.stat().st_mode & 0o777, 0o600)
        self.json_of(*self.run_two, "--trace", dangling)
        self.assertTrue(dangling.is_symlink())
        self.assertTrue((self.folder / "not yet there").read_text())
        self.refuse(1, ["--trace", "symbolic links"], *self.run_two, "--trace", loop)
        with open(self.folder / "log", "ab") as log:
            log.write(b"history")
            log.flush()
            command = [BINARY, *map(str, self.run_two), "--trace", "/dev/stderr"]
            self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL, stderr=log).returncode, 2)
        self.assertTrue((self.folder / "log").read_bytes().startswith(b"historylockstep: --trace '/dev/stderr' is where"))

    def test_a_folder_that_goes_away(self):
        folder = self.folder / "gone"
        folder.mkdir()
        command = [BINARY, *map(str, self.run_two), "--ignore-eos", "--json", "--trace", str(folder / "trace.json")]
        environment = os.environ | {"LOCKSTEP_TEST_COMM_DELAY_US": "20000"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            while not self.has_open_file_in(folder, running.pid):
                self.assertIsNone(running.poll())
                time.sleep(0.01)
            shutil.rmtree(folder)
            result, errors = running.communicate()
            self.assertEqual(running.returncode, 1)
        self.assertIn("logits_sha256", json.loads(result))
        self.assertRegex(errors.decode().splitlines()[-1], "^lockstep: --trace .* cannot be written: No such file")

    def test_after_a_failure(self):
        for kind in ("throw", "exit"):
            self.refuse(1, ["rank 1"], *self.run_two[:5], "-n", "0", "--tp-size", "2", "--quiet", "--trace", self.out,
                        LOCKSTEP_TEST_FAULT=f"1:0:{kind}")  # fmt: skip
            (rank_1,) = [e["tid"] for e in self.events() if e["name"] == "thread_name" and e["args"]["name"] == "rank 1"]
            steps = [e["args"]["step"] for e in self.events() if e["name"] == "step" and e["tid"] == rank_1]
            self.assertEqual(steps, [0])
            self.out.unlink()

    def test_what_cannot_be_written_is_refused_before_loading(self):
        for path, status, words in (
            (self.folder, 1, ["--trace", "is a directory"]),
            (self.folder / "none" / "t.json", 1, ["--trace", "No such file"]),
            (self.ids_only, 2, ["--trace", "the model's own file"]),
        ):
            # A run that came to loading would end with rank 1's fault.
            self.refuse(status, words, *self.run_two, "--trace", path, LOCKSTEP_TEST_FAULT="1:0:throw")
        # What stands at the target stays when no rank begins.
        self.out.write_text("kept")
        self.refuse(1, ["--tp-size", "99"], *self.run_two[:-1], "99", "--trace", self.out)
        self.assertEqual(self.out.read_text(), "kept")

    def test_a_file_that_cannot_be_finished(self):
        """The result was there before; and it is said once."""
        done = lockstep(*self.run_two, "--json", "--quiet", "--trace", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("logits_sha256", json.loads(done.stdout))
        self.assertRegex(done.stderr, "^lockstep: --trace '/dev/full' could not be written to its end: No space[^\n]*\n$")

    def test_help(self):
        for command in ("generate", "logits"):
            self.assertIn("--trace FILE", self.succeed(command, "--help").stdout.decode())

    def test_picture(self):
        self.succeed(*self.run_two, "--trace", self.out)
        drawn = subprocess.run([sys.executable, TOOL, self.out, "--step", "3", "--layers", "0-1"],
                               capture_output=True, check=True)  # fmt: skip
        picture = ElementTree.fromstring(drawn.stdout)
        titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(sum(title.startswith("step step 3:") for title in titles), 2)  # one a rank
        self.assertTrue(any(title.startswith("attn_output step 3 layer 1:") for title in titles))


if __name__ == "__main__":
    main()
