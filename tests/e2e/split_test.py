#!/usr/bin/env python3
"""A model divided over several files generates what the whole one generates, and says which file is missing or short."""

import shutil

from program import FIXTURES, ProgramTest, main

PARTS = [f"output-{part:05}-of-00003.gguf" for part in (1, 2, 3)]


class SplitTest(ProgramTest):
    def copy(self, name):
        folder = self.folder / name
        shutil.copytree(FIXTURES / "split", folder)
        return folder

    def test_the_split_is_the_whole(self):
        run = ["generate", "-p", "Hello", "-n", "24", "--temp", "1", "--seed", "3", "--ignore-eos"]
        whole = self.json_of(*run, "-m", FIXTURES / "tiny" / "output.gguf")
        self.assertEqual(len(whole["tokens"]), 24)
        for size in ("1", "2", "3"):
            split = self.json_of(*run, "-m", FIXTURES / "split" / PARTS[0], "--tp-size", size)
            for key in ("text", "tokens", "logits_sha256"):
                self.assertEqual(split[key], whole[key], f"{key} at size {size}")

    def test_only_the_first_part_is_opened(self):
        self.refuse(2, ["part 3 of 3", PARTS[0]], "generate", "-m", FIXTURES / "split" / PARTS[2], "-p", "x")

    def test_a_missing_part_is_named(self):
        folder = self.copy("missing")
        (folder / PARTS[1]).unlink()
        self.refuse(1, [folder / PARTS[1], "No such file"], "generate", "-m", folder / PARTS[0], "-p", "x")

    def test_a_part_cut_short_is_named(self):
        folder = self.copy("short")
        for part in PARTS:
            data = (folder / part).read_bytes()
            (folder / part).write_bytes(data[:-64])
            self.refuse(1, [folder / part, "cut short"], "generate", "-m", folder / PARTS[0], "-p", "x")
            (folder / part).write_bytes(data)


if __name__ == "__main__":
    main()
