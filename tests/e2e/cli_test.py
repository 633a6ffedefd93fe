#!/usr/bin/env python3
"""What each command does: its results, its JSON, its files.

Standard library only. What the numbers should be is the business of tests/parity; here it is that the commands agree with
the contract and with each other.
"""

import hashlib
import json
import math
import os
import signal
import struct
import subprocess
import time

from byte_vocabulary import END_TOKEN
from program import BINARY, ProgramTest, lockstep, main

GENERATE_KEYS = ["text", "tokens", "prompt_tokens", "finish_reason", "load_s", "ttft_s", "prefill_tok_s", "decode_tok_s",
                 "weight_gb_s", "logits_sha256", "ranks"]  # fmt: skip
RANK_KEYS = ["rank", "weight_bytes", "replicated_bytes", "read_bytes", "kv_bytes", "compute_s", "comm_s", "wait_s"]


class CommandTest(ProgramTest):
    # ---- generate ----

    def test_generate(self):
        options = ["generate", "-m", self.model, "-p", "Hello", "-n", "40", "--tp-size", "3", "--ignore-eos"]
        report = self.json_of(*options)
        self.assertEqual(list(report), GENERATE_KEYS)
        self.assertEqual((len(report["tokens"]), report["prompt_tokens"], report["finish_reason"]), (40, 5, "length"))
        self.assertRegex(report["logits_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual([list(rank) for rank in report["ranks"]], [RANK_KEYS] * 3)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2])
        for key in GENERATE_KEYS[4:9]:
            self.assertTrue(math.isfinite(report[key]) and report[key] > 0, key)
        plan = self.json_of("inspect", "-m", self.model, "--tp-size", "3")["ranks"]
        for found, predicted in zip(report["ranks"], plan, strict=True):
            for key in ("weight_bytes", "replicated_bytes"):
                self.assertEqual(found[key], predicted[key])

        streamed = self.succeed(*options)
        self.assertEqual(streamed.stdout.decode(), report["text"] + "\n")
        for word in ("load", "first token", "prefill", "decode", "GB/s", report["logits_sha256"], "rank"):
            self.assertIn(word, streamed.stderr)
        self.assertEqual(self.succeed(*options, "--quiet").stderr, "")

    def test_text_comes_before_the_end(self):
        """With slow collectives the whole would take many seconds; some of it is there before."""
        environment = os.environ | {"LOCKSTEP_TEST_COMM_DELAY_US": "20000"}
        command = [BINARY, "generate", "-m", self.ids_only, "--tokens", "1", "-n", "200", "--tp-size", "2"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            self.assertRegex(running.stdout.read(1), b"[0-9]")
            self.assertIsNone(running.poll())
            running.terminate()
            self.assertEqual(running.wait(), -signal.SIGTERM)

    def test_the_text_is_what_the_tokens_say(self):
        """As Python decodes the bytes, U+FFFD for what is no character."""
        sampling = ["--temp", "5", "--ignore-eos"]  # near random: many bytes that are no UTF-8
        for seed in range(5):
            report = self.json_of("generate", "-m", self.model, "-p", "é", "-n", "200", *sampling, "--seed", seed)
            data = bytes(token for token in report["tokens"] if token != END_TOKEN)
            self.assertEqual(report["text"], data.decode(errors="replace"))

    def test_generate_does_not_depend_on_the_division(self):
        options = ["generate", "-m", self.model, "-p", "a text", "-n", "12", "--temp", "1", "--seed", "7", "--ignore-eos"]
        base = self.json_of(*options, "--tp-size", "1", "--threads", "1")
        for division in (["--tp-size", "2"], ["--tp-split", "3,1"], ["--tp-size", "5", "--threads", "2"],
                         ["--tp-size", "2", "--tp-embedding-mode", "replicated", "--tp-lm-head-mode", "replicated"],
                         ["--tp-size", "auto", "--prefill-chunk", "2", "--ctx", "64"]):  # fmt: skip
            other = self.json_of(*options, *division)
            self.assertEqual((other["text"], other["logits_sha256"]), (base["text"], base["logits_sha256"]), division)
        other_seed = [*options[:-3], "--seed", "8", "--ignore-eos"]
        self.assertNotEqual(self.json_of(*other_seed)["tokens"], base["tokens"])

    def test_generate_ends(self):
        few = self.json_of("generate", "-m", self.ids_only, "--tokens", "1,2", "-n", "0")
        self.assertEqual((few["tokens"], few["finish_reason"]), ([], "length"))
        full = self.json_of("generate", "-m", self.ids_only, "--tokens", ",".join(["1"] * 250), "-n", "100")
        self.assertEqual((len(full["tokens"]), full["finish_reason"]), (7, "length"))

    def test_stop_strings(self):
        """The text ends before the first to be complete, whatever its characters; no token is generated after it."""
        run = ["generate", "-m", self.model, "-p", "Hello", "--ignore-eos", "--temp", "2", "--seed", "3"]
        whole = self.json_of(*run, "-n", "60")
        self.assertEqual(whole["finish_reason"], "length")
        for begin, size in ((0, 1), (20, 1), (20, 4), (40, 3)):
            stop = whole["text"][begin : begin + size]
            end = whole["text"].index(stop)
            report = self.json_of(*run, "-n", "100", "--stop", "not there", "--stop", stop)
            self.assertEqual((report["text"], report["finish_reason"]), (whole["text"][:end], "stop"))
            self.assertEqual(report["tokens"], whole["tokens"][: len(report["tokens"])])
            shown = bytes(report["tokens"]).decode(errors="replace")
            self.assertLess(len(shown) - end - len(stop), 2)  # what could not be a character takes one byte more to show
            streamed = self.succeed(*run, "-n", "100", "--stop=" + stop)
            self.assertEqual(streamed.stdout.decode(), whole["text"][:end] + "\n")
        for stop in ("{}", "[x]", "--json", "%%"):
            self.assertEqual(self.json_of(*run, "-n", "5", "--stop", stop)["tokens"], whole["tokens"][:5])
        # Half a stop string at the end is text like any other.
        last = self.json_of(*run, "-n", "5", "--stop", whole["text"][4] + "\N{SNOWMAN}")
        self.assertEqual(last["finish_reason"], "length")
        self.assertEqual(last["text"], self.json_of(*run, "-n", "5")["text"])

    def test_penalties_and_bias(self):
        run = ["generate", "-m", self.ids_only, "--tokens", "1,2,3", "-n", "30"]
        plain = self.json_of(*run)["tokens"]
        self.assertLess(len(set(plain)), 30)  # greedy decoding repeats itself
        first = plain[0]
        self.assertNotIn(first, self.json_of(*run, "--logit-bias", f"{first}:-inf")["tokens"])
        self.assertEqual(set(self.json_of(*run, "--logit-bias", "9:1e6")["tokens"]), {9})
        self.assertEqual(self.json_of(*run, "--logit-bias", "9:0", "--repeat-penalty", "1")["tokens"], plain)
        for penalty in (["--repeat-penalty", "1000"], ["--presence-penalty", "2"], ["--frequency-penalty", "2"]):
            other = self.json_of(*run, *penalty)["tokens"]
            self.assertGreater(len(set(other)), len(set(plain)), penalty)
            self.assertEqual(other, self.json_of(*run, *penalty, "--tp-size", "7")["tokens"])
        none = [word for token in range(257) for word in ("--logit-bias", f"{token}:-inf")]
        self.refuse(2, ["no token", "position 3", "--logit-bias"], *run, *none, "--quiet")

    def test_logprobs(self):
        run = ["generate", "-m", self.ids_only, "--tokens", "5,6,7", "-n", "4", "--temp", "1", "--seed", "5"]
        report = self.json_of(*run, "--logprobs", "3", "--logit-bias", "200:3", "--top-k", "9")
        self.assertEqual(list(report), [*GENERATE_KEYS, "logprobs"])
        self.assertEqual([entry["token"] for entry in report["logprobs"]], report["tokens"])
        out = self.folder / "logprobs.npy"
        context = ",".join(map(str, [5, 6, 7, *report["tokens"][:-1]]))
        self.succeed("logits", "-m", self.ids_only, "--tokens", context, "--out", out)
        rows = [row for row in struct.iter_unpack("<257f", out.read_bytes()[-6 * 257 * 4 :])][-4:]
        for entry, row in zip(report["logprobs"], rows, strict=True):
            self.assertEqual(list(entry), ["token", "logprob", "top"])
            total = math.log(sum(map(math.exp, row)))
            self.assertAlmostEqual(entry["logprob"], row[entry["token"]] - total, places=9)
            likeliest = sorted(range(257), key=lambda token: (-row[token], token))[:3]
            self.assertEqual([other["token"] for other in entry["top"]], likeliest)
            for other in entry["top"]:
                self.assertEqual(list(other), ["token", "logprob"])
                self.assertAlmostEqual(other["logprob"], row[other["token"]] - total, places=9)
        self.assertEqual([entry["top"] for entry in self.json_of(*run, "--logprobs", "0")["logprobs"]], [[]] * 4)
        self.assertNotIn("logprobs", self.json_of(*run))

    def test_generate_without_a_tokenizer(self):
        report = self.json_of("generate", "-m", self.ids_only, "--tokens", "7 8, 9", "-n", "5")
        self.assertEqual((report["text"], report["prompt_tokens"], len(report["tokens"])), ("", 3, 5))
        printed = self.succeed("generate", "-m", self.ids_only, "--tokens", "7,8,9", "-n", "5").stdout.decode()
        self.assertEqual([int(word) for word in printed.split()], report["tokens"])

    def test_prompts_are_the_same_from_everywhere(self):
        text = "Größe\n12"
        file = self.folder / "prompt.txt"
        file.write_text(text)
        options = ["generate", "-m", self.model, "-n", "3", "--ignore-eos"]
        reports = [
            self.json_of(*options, "-p", text),
            self.json_of(*options, "-f", file),
            self.json_of(*options, "-f", "-", stdin=text.encode()),
            self.json_of(*options, "--tokens", ",".join(str(byte) for byte in text.encode())),
        ]
        for report in reports[1:]:
            self.assertEqual(report["logits_sha256"], reports[0]["logits_sha256"])
            self.assertEqual(report["prompt_tokens"], len(text.encode()))

    # ---- logits ----

    def test_logits(self):
        out = self.folder / "logits.npy"
        report = self.json_of("logits", "-m", self.ids_only, "--tokens", "5,6,7,8", "--out", out, "--tp-size", "2")
        self.assertEqual(list(report), ["tokens", "vocab", "sha256"])
        self.assertEqual((report["tokens"], report["vocab"]), (4, 257))
        data = out.read_bytes()
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        (header_size,) = struct.unpack_from("<H", data, 8)
        self.assertEqual((10 + header_size) % 64, 0)
        header = eval(data[10 : 10 + header_size])  # a Python literal, by the format's definition
        self.assertEqual(header, {"descr": "<f4", "fortran_order": False, "shape": (4, 257)})
        rows = data[10 + header_size :]
        self.assertEqual(len(rows), 4 * 257 * 4)
        self.assertEqual(hashlib.sha256(rows).hexdigest(), report["sha256"])
        # The last row is what the first token is drawn from.
        last = struct.unpack("<257f", rows[-257 * 4 :])
        drawn = self.json_of("generate", "-m", self.ids_only, "--tokens", "5,6,7,8", "-n", "1")
        self.assertEqual(drawn["tokens"], [last.index(max(last))])
        self.assertEqual(drawn["logits_sha256"], hashlib.sha256(rows[-257 * 4 :]).hexdigest())

    def test_logits_replace_a_file_only_when_they_are_whole(self):
        folder = self.folder / "whole"
        folder.mkdir()
        (folder / "real.npy").write_bytes(b"the result of another run")
        (folder / "out.npy").symlink_to("real.npy")
        run = ["logits", "-m", self.ids_only, "--tokens", "5,6,7,8", "--out", folder / "out.npy"]
        self.refuse(1, ["rank 1"], *run, "--quiet", "--tp-size", "2", LOCKSTEP_TEST_FAULT="1:0:throw")
        self.refuse(1, ["--ctx"], *run, "--ctx", "3")
        self.assertEqual((folder / "real.npy").read_bytes(), b"the result of another run")
        self.succeed(*run)
        self.assertEqual((folder / "real.npy").read_bytes()[:6], b"\x93NUMPY")
        self.assertTrue((folder / "out.npy").is_symlink())
        self.assertEqual(sorted(file.name for file in folder.iterdir()), ["out.npy", "real.npy"])

    def test_logits_never_replace_the_model(self):
        model = self.folder / "kept.gguf"
        model.write_bytes(self.ids_only.read_bytes())
        link = self.folder / "link.gguf"
        link.symlink_to(model)
        for out in (model, link, self.folder / "." / "kept.gguf"):
            self.refuse(2, ["--out", "the model's own file"], "logits", "-m", model, "--tokens", "1", "--out", out)
        self.assertEqual(model.read_bytes(), self.ids_only.read_bytes())

    def test_logits_to_a_pipe_that_is_read_late(self):
        """Longer than a rank may stand still, and more than a pipe holds: the run does not wait for the reader."""
        pipe, file = self.folder / "pipe", self.folder / "file.npy"
        os.mkfifo(pipe)
        run = ["logits", "-m", self.ids_only, "--tokens", ",".join(["7"] * 200), "--tp-size", "2", "--out"]
        self.succeed(*run, file)
        with subprocess.Popen([BINARY, *map(str, run), pipe], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            with open(pipe, "rb") as reader:
                time.sleep(3)  # the stall limit is 2 s
                received = reader.read()
            _, errors = running.communicate()
            self.assertEqual(running.returncode, 0, errors)
        self.assertEqual(received, file.read_bytes())

    def test_logits_to_a_device_that_is_full(self):
        run = ["logits", "-m", self.ids_only, "--tokens", "1", "--out", "/dev/full"]
        self.refuse(1, ["--out '/dev/full'", "No space"], *run)

    # ---- tokenize, detokenize ----

    def test_tokenize_and_back(self):
        text = "Ünïcode 🙂 and\ttabs <|end|>"
        encoded = self.json_of("tokenize", "-m", self.model, "-p", text)
        self.assertEqual(list(encoded), ["tokens", "pieces"])
        self.assertEqual(encoded["tokens"], list(text.encode()))
        self.assertEqual(encoded["pieces"][0], "\N{REPLACEMENT CHARACTER}")  # half a character
        back = self.json_of("detokenize", "-m", self.model, "--tokens", ",".join(map(str, encoded["tokens"])))
        self.assertEqual(back, {"text": text})
        special = self.json_of("tokenize", "-m", self.model, "-p", "a<|end|>", "--parse-special")
        self.assertEqual(special, {"tokens": [97, END_TOKEN], "pieces": ["a", "<|end|>"]})
        self.assertEqual(self.json_of("detokenize", "-m", self.model, "--tokens", "97 256")["text"], "a<|end|>")
        self.assertEqual(self.json_of("tokenize", "-m", self.model, "-p", ""), {"tokens": [], "pieces": []})
        listing = self.succeed("tokenize", "-m", self.model, "-p", "a\nb").stdout.decode()
        self.assertEqual([line.split() for line in listing.splitlines()], [["97", "a"], ["10", "\\n"], ["98", "b"]])

    # ---- inspect ----

    def test_inspect_a_checkpoint(self):
        report = self.json_of("inspect", "-m", self.model)
        self.assertEqual(list(report)[:5], ["architecture", "parameters", "tensors", "tokenizer", "chat_template"])
        self.assertEqual((report["architecture"], report["chat_template"]), ("llama", False))
        self.assertIn("BPE", report["tokenizer"])
        elements = 0
        for tensor in report["tensors"]:
            self.assertEqual(list(tensor), ["name", "dtype", "shape", "bytes"])
            elements += math.prod(tensor["shape"])
        self.assertEqual(report["parameters"], elements)
        self.assertIsNone(self.json_of("inspect", "-m", self.ids_only)["tokenizer"])
        self.assertIn("blk.1.ffn_down.weight", self.succeed("inspect", "-m", self.model).stdout.decode())

    def test_inspect_a_plan(self):
        sides = {t["name"]: t["shape"] for t in self.json_of("inspect", "-m", self.ids_only)["tensors"]}
        for division in (["--tp-size", "1"], ["--tp-size", "3"], ["--tp-size", "14"], ["--tp-split", "2,1"]):
            plan = self.json_of("inspect", "-m", self.ids_only, *division)
            self.assertEqual(list(plan), ["tp_size", "tensors", "sites", "ranks"])
            totals = [0] * plan["tp_size"]
            shared = [0] * plan["tp_size"]
            for tensor in plan["tensors"]:
                self.assertEqual(list(tensor), ["name", "strategy", "comm", "axis", "slices", "replicated"])
                self.assertIn(tensor["axis"], ("rows", "cols"))
                side = sides[tensor["name"]][tensor["axis"] == "cols"]
                holders = [set() for _ in range(side)]
                for part in tensor["slices"]:
                    self.assertEqual(list(part), ["rank", "begin", "end", "bytes", "shared_bytes"])
                    totals[part["rank"]] += part["bytes"]
                    shared[part["rank"]] += part["shared_bytes"]
                    for element in range(part["begin"], part["end"]):
                        holders[element].add(part["rank"])
                listed = {e: set(r["ranks"]) for r in tensor["replicated"] for e in range(r["begin"], r["end"])}
                for element, ranks in enumerate(holders):
                    self.assertTrue(ranks, tensor["name"])
                    self.assertEqual(listed.get(element, ranks), ranks, tensor["name"])
                    self.assertEqual(len(ranks) > 1, element in listed, tensor["name"])
            for rank, numbers in enumerate(plan["ranks"]):
                self.assertEqual(list(numbers), ["rank", "weight_bytes", "replicated_bytes", "kv_bytes_per_token"])
                self.assertEqual(numbers["weight_bytes"], totals[rank])
                self.assertEqual(numbers["replicated_bytes"], shared[rank])
            # Two a layer, one more for the embedding and one for the head; none without a second rank.
            self.assertEqual(len(plan["sites"]), 0 if plan["tp_size"] == 1 else 2 * 2 + 2)
            for site in plan["sites"]:
                self.assertEqual(list(site), ["layer", "name", "pattern", "bytes_per_token"])
        replicated = self.json_of("inspect", "-m", self.ids_only, "--tp-size", "2", "--tp-embedding-mode", "replicated")
        self.assertEqual([site["name"] for site in replicated["sites"]], ["attn_output", "ffn_down"] * 2 + ["lm_head"])
        half = self.json_of("inspect", "-m", self.ids_only, "--tp-size", "2")["ranks"]
        full = self.json_of("inspect", "-m", self.ids_only, "--tp-size", "2", "--activations", "f32")["ranks"]
        self.assertEqual([2 * rank["kv_bytes_per_token"] for rank in half], [r["kv_bytes_per_token"] for r in full])
        self.assertIn("VocabParallel", self.succeed("inspect", "-m", self.model, "--tp-size", "2").stdout.decode())

    # ---- verify ----

    def test_verify(self):
        grid = ["--tp-sizes", "1,2", "--tp-splits", "2,1;3,1", "--chunks", "7,0", "--batches", "1,3", "--threads", "1,2"]
        report = self.json_of("verify", "-m", self.ids_only, *grid, "--tokens", ",".join(map(str, range(40))))
        self.assertEqual(list(report), ["identical", "sha256", "runs", "first_difference"])
        self.assertIs(report["identical"], True)
        self.assertIsNone(report["first_difference"])
        self.assertEqual(len(report["runs"]), 4 * 2 * 2 * 2)
        self.assertEqual({run["sha256"] for run in report["runs"]}, {report["sha256"]})
        shapes = [tuple(map(str, list(run.values())[:-1])) for run in report["runs"]]
        self.assertEqual(len(set(shapes)), len(shapes))
        self.assertEqual(list(report["runs"][0]), ["tp_size", "tp_split", "chunk", "batch", "threads", "sha256"])
        self.assertEqual([run["tp_split"] for run in report["runs"][::8]], [None, None, [2, 1], [3, 1]])
        self.assertEqual([run["tp_size"] for run in report["runs"][::8]], [1, 2, 2, 2])
        # Other input, other logits; and the default prompt and sizes.
        other = self.succeed("verify", "-m", self.ids_only)
        self.assertEqual([line.split(",")[0] for line in other.stderr.splitlines()], ["tp 1", "tp 2", "tp 3"])
        self.assertTrue(other.stdout.startswith(b"identical: 3 runs"))
        self.assertNotIn(report["sha256"], other.stdout.decode())

    def test_verify_covers_prompt_and_decode(self):
        """Its hash is that of `logits` over the prompt and the tokens decoded after it, but for the last."""
        prompt = "9,8,7,6,5,4"
        tokens = self.json_of("generate", "-m", self.ids_only, "--tokens", prompt, "-n", "8")["tokens"]
        whole = ",".join([prompt, *map(str, tokens[:-1])])
        rows = self.json_of("logits", "-m", self.ids_only, "--tokens", whole)
        checked = self.json_of("verify", "-m", self.ids_only, "--tokens", prompt, "--tp-sizes", "2", "--batches", "5")
        self.assertEqual(checked["sha256"], rows["sha256"])

    def test_verify_finds_one_unit_in_the_last_place(self):
        for fault, grid, tp_size in [
            ("1:0:ulp", ["--tp-sizes", "1,2"], 2),
            ("1:1:ulp", ["--tp-sizes", "1,2"], 2),  # in the first decode step
            ("2:0:ulp", ["--tp-sizes", "1,2,3"], 3),  # tp 2 has no rank 2
            ("4:2:ulp", ["--tp-sizes", "1,5", "--chunks", "7"], 5),
            ("1:0:ulp", ["--tp-sizes", "1,2", "--batches", "3", "--threads", "2"], 2),
            ("1:0:ulp", ["--tp-sizes", "1", "--tp-splits", "3,1", "--tp-lm-head-mode", "replicated"], 2),
        ]:
            command = ["verify", "-m", self.ids_only, "--json", *grid]
            done = lockstep(*command, LOCKSTEP_TEST_FAULT=fault)
            self.assertEqual(done.returncode, 1, (fault, grid, done.stderr))
            report = json.loads(done.stdout)
            self.assertIs(report["identical"], False)
            first = report["first_difference"]
            self.assertEqual((first["layer"], first["tensor"], first["rank"]),
                             (1, "blk.1.attn_output.weight", int(fault[0])), (fault, grid))  # fmt: skip
            self.assertEqual({run["tp_size"] for run in report["runs"] if run["sha256"] != report["sha256"]}, {tp_size})
            self.assertIn("first difference: layer 1, blk.1.attn_output.weight", done.stderr)

    def test_what_was_generated_before_a_failure_is_printed(self):
        command = ["generate", "-m", self.ids_only, "--tokens", "1,2", "-n", "60", "--tp-size", "2", "--quiet"]
        whole = self.succeed(*command).stdout.split()
        done = lockstep(*command, LOCKSTEP_TEST_FAULT="0:40:throw")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.split(), whole[:40])
        self.assertTrue(done.stdout.endswith(b"\n"))

    def test_a_rank_that_fails(self):
        for kind in ("throw", "exit"):
            for command in (["generate", "-n", "5"], ["logits"], ["verify", "--tp-sizes", "2"]):
                self.refuse(1, ["rank 1"], command[0], "-m", self.ids_only, "--tokens", "1,2", "--quiet",
                            *(["--tp-size", "2"] if command[0] != "verify" else []), *command[1:],
                            LOCKSTEP_TEST_FAULT=f"1:0:{kind}")  # fmt: skip
        self.refuse(2, ["LOCKSTEP_TEST_FAULT", "throw, stall, exit, ulp"], "generate", "-m", self.ids_only, "--tokens", "1",
                    LOCKSTEP_TEST_FAULT="1:0:melt")  # fmt: skip


if __name__ == "__main__":
    main()
