#!/usr/bin/env python3
"""What the program says of itself and what it refuses: help, flags, files, environment, the process it is started in."""

import json
import os
import re
import resource
import struct
import subprocess

from byte_vocabulary import with_byte_vocabulary
from program import BINARY, VERSION, ProgramTest, lockstep, main

COMMANDS = ["generate", "chat", "inspect", "verify", "logits", "tokenize", "detokenize"]
TEXT = {"-p", "--prompt", "-f", "--file", "--parse-special"}
MODES = {"--tp-embedding-mode", "--tp-lm-head-mode", "--tp-reduce", "--activations", "--kv-dtype"}
SIZES = {"--tp-size", "--tp-split"}
STEPS = {"--threads", "--ctx", "--prefill-chunk"}
GROUP = {"--stall-ms", "--no-pin"}
DRAWING = {"--temp", "--top-k", "--top-p", "--min-p", "--seed", "--logit-bias", "--repeat-penalty", "--presence-penalty",
           "--frequency-penalty", "-n", "--max-tokens"}  # fmt: skip
CHAT = {"--system", "--chat-template", "--chat-template-kwargs"}
CONTRACT = {  # what scripts rely on; more is welcome
    "generate": TEXT | MODES | SIZES | STEPS | GROUP | DRAWING | CHAT | {"--chat", "--tokens", "--ignore-eos", "--stop",
                                                                         "--logprobs", "--trace"},
    "chat": MODES | SIZES | STEPS | GROUP | DRAWING | CHAT | {"--thoughts"},
    "inspect": MODES | SIZES,
    "verify": TEXT | MODES | GROUP | {"--tokens", "--tp-sizes", "--tp-splits", "--chunks", "--batches", "--threads",
                                      "--ctx", "--seed"},
    "logits": TEXT | MODES | SIZES | STEPS | GROUP | {"--tokens", "--out", "--trace"},
    "tokenize": TEXT,
    "detokenize": {"--tokens"},
}  # fmt: skip


class UsageTest(ProgramTest):
    # ---- help, usage, files ----

    def test_help_and_version(self):
        self.assertEqual(self.succeed("--version").stdout.decode(), f"lockstep {VERSION}\n")
        listed = self.succeed("--help").stdout.decode()
        for command in COMMANDS:
            self.assertIn(command, listed)

    def flags_of(self, command):
        """The flags that --help lists: {"-m,--model": ("PATH", "the model: ...")}."""
        flags, names = {}, None
        for line in self.succeed(command, "--help").stdout.decode().splitlines():
            if found := re.match(r"  (-\S+)(?: (\S+))?(?:  +(.*))?$", line):
                names = found[1]
                flags[names] = (found[2] or "", found[3] or "")
            elif names and line.startswith(" " * 10):
                flags[names] = (flags[names][0], flags[names][1] + " " + line.strip())
            else:
                names = None
        return flags

    def test_help_lists_the_contract(self):
        for command in COMMANDS:
            listed = {name for names in self.flags_of(command) for name in names.split(",")}
            everywhere = {"-m", "--model", "--quiet", "--log-level"} | ({"--json"} if command != "chat" else set())
            self.assertLessEqual(everywhere | CONTRACT[command], listed, command)

    def test_help_says_which_numbers_are_allowed(self):
        for command in COMMANDS:
            for names, (value, text) in self.flags_of(command).items():
                self.assertTrue(text, f"{command} {names}")
                if value.startswith("N"):
                    self.assertRegex(text, r"\b\S+ or more\b|\bfrom \S+ to \S", f"{command} {names}")
                    if names != "--tokens":  # which is one of the ways to give a prompt
                        self.assertRegex(text, r"default: \S", f"{command} {names}")
                if names in ("--top-k", "--top-p", "--min-p"):
                    self.assertIn("--temp", text)

    def test_every_flag_of_the_help_is_accepted(self):
        """Under each of its names, with its default or each of the values that the help offers."""
        words = {"PATH": [self.model], "TEXT": ["x"], "FILE": [self.folder / "prompt"], "N,N,...": ["1,1"],
                 "N,N;...": ["1,1"], "ID:V": ["1:-0.5"], "JSON": ['{"a": 1}'], "FILE.npy": [self.folder / "accepted.npy"],
                 "FILE.json": [self.folder / "accepted.json"]}  # fmt: skip
        (self.folder / "prompt").write_text("x")
        for command in COMMANDS:
            for names, (value, text) in self.flags_of(command).items():
                default = re.search(r"default: ([-\d.]+)$", text)
                if value == "N":
                    values = [default[1] if default else "200" if names == "--ctx" else "1"]
                else:
                    values = words.get(value) or [word for word in value.split("|") if word != "N"]
                base = [] if "--model" in names else ["-m", self.model]
                of_chat = command == "generate" and names in {"--chat", *CHAT}
                if command == "chat" or of_chat:
                    base += ["--chat-template", self.folder / "prompt"] if names != "--chat-template" else []
                if of_chat:
                    base += ["-p", "x", *(["--chat"] if names != "--chat" else [])]
                elif names == "--parse-special":
                    base += ["-p", "x"]
                elif command not in ("inspect", "verify", "chat") and names.split(",")[-1] not in ("--prompt", "--file", "--tokens"):
                    base += ["--tokens", "1"] if command != "tokenize" else ["-p", "x"]
                base += ["-n", "1"] if command == "generate" and "--max-tokens" not in names else []
                base += ["--json"] if names == "--logprobs" else []
                base += ["--tp-size", "1"] if command == "inspect" and names in MODES else []
                base += ["--tp-sizes", "1"] if command == "verify" and "--tp-sizes" not in names else []
                for name in names.split(","):
                    for word in values:
                        self.succeed(command, *base, name, *([word] if word else []))

    def test_usage_errors(self):
        generate = ["generate", "-m", self.ids_only, "--tokens", "1"]
        for words, arguments in [
            (["command"], []),
            (["frobnicate", "--help"], ["frobnicate"]),
            (["--frobnicate"], [*generate, "--frobnicate"]),
            (["--model"], ["generate", "--tokens", "1"]),
            (["--prompt", "--file", "--tokens"], ["generate", "-m", self.ids_only]),
            (["--prompt", "--file", "--tokens"], [*generate, "-p", "x"]),
            (["--max-tokens", "3x", "integer"], [*generate, "-n", "3x"]),
            (["--max-tokens", "''"], [*generate, "-n", ""]),
            (["--max-tokens", "-1", "0 or more"], [*generate, "-n", "-1"]),
            (["--max-tokens", "1e3"], [*generate, "-n", "1e3"]),
            (["--max-tokens", "99999999999999999999", f"at most {2**63 - 1}"], [*generate, "-n", "99999999999999999999"]),
            (["--seed", str(2**64), f"at most {2**64 - 1}"], [*generate, "--seed", 2**64]),
            (["--temp", "1000001", "from 0 to 1000000"], [*generate, "--temp", "1000001"]),
            (["--temp", "nan"], [*generate, "--temp", "nan"]),
            (["--temp", "inf"], [*generate, "--temp", "inf"]),
            (["--top-p", "1.5", "from 0 to 1"], [*generate, "--top-p", "1.5"]),
            (["--repeat-penalty", "'0'", "from 0.001 to 1000"], [*generate, "--repeat-penalty", "0"]),
            (["--presence-penalty", "'2.5'", "from -2 to 2"], [*generate, "--presence-penalty", "2.5"]),
            (["--frequency-penalty", "'nan'", "from -2 to 2"], [*generate, "--frequency-penalty", "nan"]),
            (["--logprobs", "'21'", "from 0 to 20"], [*generate, "--logprobs", "21"]),
            (["--logprobs", "--json"], [*generate, "--logprobs", "2"]),
            (["--logit-bias", "'5'", "42:-1.5"], [*generate, "--logit-bias", "5"]),
            (["--logit-bias", "'1:2:3'"], [*generate, "--logit-bias", "1:2:3"]),
            (["--logit-bias: the id", "'x'", "integer"], [*generate, "--logit-bias", "x:1"]),
            (["--logit-bias: the id", "'-1'", "0 to 2147483647"], [*generate, "--logit-bias", "-1:1"]),
            (["--logit-bias: the value", "''", "number"], [*generate, "--logit-bias", "1:"]),
            (["--logit-bias: the value", "'nan'"], [*generate, "--logit-bias", "1:nan"]),
            (["--logit-bias of token 1", "inf", "finite"], [*generate, "--logit-bias", "1:inf"]),
            (["--logit-bias", "token 7", "2 times"], [*generate, "--logit-bias", "7:1", "--logit-bias", "7:1"]),
            (["--logit-bias", "token 257", "0 to 256"], [*generate, "--logit-bias", "257:1", "--quiet"]),
            (["--stop", "''"], ["generate", "-m", self.model, "-p", "x", "--stop", ""]),
            (["--stop", "no tokenizer"], [*generate, "--stop", "x"]),
            (["--tp-size", "0"], [*generate, "--tp-size", "0"]),
            (["--tp-size", "two"], [*generate, "--tp-size", "two"]),
            (["--tp-size is 3", "2 shares"], [*generate, "--tp-size", "3", "--tp-split", "1,2"]),
            (["--tp-split", "nan"], [*generate, "--tp-split", "1,nan"]),
            (["--tp-split", "-1"], [*generate, "--tp-split", "1,-1"]),
            (["--tp-split"], [*generate, "--tp-split", "0,0"]),
            (["--tp-split: item 2", "1e308", "from 0 to 1000000"], [*generate, "--tp-split", "1,1e308,1e308"]),
            (["--tp-reduce", "star", "tree, ring"], [*generate, "--tp-reduce", "star"]),
            (["--tp-lm-head-mode", "vocab_parallel, replicated"], [*generate, "--tp-lm-head-mode", "x"]),
            (["--activations", "int8", "auto, f32"], [*generate, "--activations", "int8"]),
            (["--kv-dtype", "int8", "f16, bf16, f32"], [*generate, "--kv-dtype", "int8"]),
            (["--threads", "0"], [*generate, "--threads", "0"]),
            (["--ctx", "0"], [*generate, "--ctx", "0"]),
            (["--log-level", "loud", "warn"], [*generate, "--log-level", "loud"]),
            (["--tokens: item 2", "257", "0 to 256"], ["generate", "-m", self.ids_only, "--tokens", "1,257"]),
            (["--tokens", "-1"], ["generate", "-m", self.ids_only, "--tokens=-1"]),
            (["--tokens: item 2", "''"], ["logits", "-m", self.ids_only, "--tokens", "1,,2"]),
            (["--tokens: item 3", "'x'"], ["logits", "-m", self.ids_only, "--tokens", "1 2 x"]),
            (["--tokens", "''"], ["logits", "-m", self.ids_only, "--tokens", ""]),
            (["--tokens", "257", "0 to 256"], ["detokenize", "-m", self.model, "--tokens", "257"]),
            (["--tokens", "required"], ["detokenize", "-m", self.model]),
            (["none of --prompt and --file are"], ["tokenize", "-m", self.model]),
            (["empty"], ["generate", "-m", self.model, "-p", ""]),
            (["--tp-splits, division 2"], ["verify", "-m", self.ids_only, "--tp-splits", "2,1;"]),
            (["--tp-splits, division 2: item 1", "1e308"], ["verify", "-m", self.ids_only, "--tp-splits", "1;1e308,1"]),
            (["--parse-special", "--tokens"], [*generate, "--parse-special"]),
            (["--prompt, --file and --tokens"], ["verify", "-m", self.ids_only, "--parse-special"]),
            (["--batches", "0"], ["verify", "-m", self.ids_only, "--batches", "0"]),
        ]:  # fmt: skip
            self.refuse(2, words, *arguments)

    def test_files_that_cannot_be_read(self):
        for command in COMMANDS:
            source = [] if command in ("chat", "inspect", "verify") else ["--tokens", "1"]
            source = ["-p", "x"] if command == "tokenize" else source
            missing = self.folder / "missing.gguf"
            self.refuse(1, [missing], command, "-m", missing, *source)
            self.refuse(1, [self.folder], command, "-m", self.folder, *source)
        cut = self.folder / "cut.gguf"
        cut.write_bytes(self.ids_only.read_bytes()[:5000])
        self.refuse(1, [cut], "generate", "-m", cut, "--tokens", "1")
        self.refuse(1, ["missing.txt"], "generate", "-m", self.model, "-f", self.folder / "missing.txt")
        self.refuse(1, [self.folder, "directory"], "generate", "-m", self.model, "-f", self.folder)
        self.refuse(1, ["logits.npy"], "logits", "-m", self.model, "-p", "x", "--out", self.folder / "no" / "logits.npy")
        self.refuse(1, ["tokenizer", "--tokens"], "generate", "-m", self.ids_only, "-p", "x")

    def test_errors_stay_on_one_line(self):
        name = self.folder / "two\nlines.gguf"
        self.refuse(1, ["lines.gguf"], "generate", "-m", name, "--tokens", "1")

    def test_errors_stay_short(self):
        key, value = b"general.architecture", b"\n\xff" * 1_500_000
        header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
        file = self.folder / "long.gguf"
        file.write_bytes(header + struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value)
        done = lockstep("inspect", "-m", file)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertLess(len(done.stderr), 1000)
        self.assertIn("(3000000 bytes)", done.stderr)

    def test_what_does_not_fit(self):
        self.refuse(1, ["--tp-size 15", "14"], "generate", "-m", self.ids_only, "--tokens", "1", "--tp-size", "15")
        self.refuse(1, ["--tp-size 15", "14"], "verify", "-m", self.ids_only, "--tp-sizes", "1,15")
        long = ",".join(["1"] * 257)
        self.refuse(1, ["257", "256"], "generate", "-m", self.ids_only, "--tokens", long)
        self.refuse(1, ["3 tokens", "--ctx", "2"], "generate", "-m", self.ids_only, "--tokens", "1,2,3", "--ctx", "2")
        self.refuse(1, ["--ctx 257", "256"], "generate", "-m", self.ids_only, "--tokens", "1", "--ctx", "257")

    def test_flags_of_the_plan_need_a_plan(self):
        values = {"--tp-reduce": "ring", "--activations": "f32", "--kv-dtype": "f32"}
        for flag in sorted(MODES):
            arguments = ["inspect", "-m", self.ids_only, flag, values.get(flag, "replicated")]
            self.refuse(2, [flag, "--tp-size", "--tp-split"], *arguments)
            self.succeed(*arguments, "--tp-split", "2,1")

    def test_values_are_what_stands_there(self):
        """Empty, or like a flag, in each way of writing a flag and its value."""
        for value in ("", "-hello", "--json", "--", "--prompt=", "-n=3", "=", "=x", "a=b"):
            ways = [["-p", value], ["-p=" + value], ["--prompt", value], ["--prompt=" + value]]
            ways += [["-p" + value]] if value and value[0] != "=" else []
            for way in ways:
                encoded = self.json_of("tokenize", "-m", self.model, *way)
                self.assertEqual(bytes(encoded["tokens"]).decode(), value, way)
        for way in (["-n", "3"], ["-n3"], ["-n=3"], ["--max-tokens", "3"], ["--max-tokens=3"]):
            self.assertEqual(len(self.json_of("generate", "-m", self.ids_only, "--tokens=1", *way)["tokens"]), 3)
        for flag in ("--tokens=", "--max-tokens=", "-n=", "--tp-size=", "--kv-dtype="):
            self.refuse(2, ["is ''"], "generate", "-m", self.ids_only, flag, "--json")

    def test_paths_may_not_be_empty(self):
        for flag in ("--model=", "-m=", "-f=", "--out=", "--trace="):
            model = [] if flag[:2] == "-m" or flag == "--model=" else ["-m", self.ids_only]
            prompt = [] if flag == "-f=" else ["--tokens", "1"]
            self.refuse(2 if not model else 1, ["''"], "logits", *model, *prompt, flag)

    def test_log_levels(self):
        """Each shows less than the one before; --quiet shows nothing at any."""
        run = ["generate", "-m", self.ids_only, "--tokens", "1", "-n", "1", "--tp-size", "2", "--json", "--log-level"]
        shown = {level: set(re.findall(r"\[(debug|info|warning|error)\]", self.succeed(*run, level).stderr))
                 for level in ("debug", "info", "warn", "error", "off")}  # fmt: skip
        self.assertEqual(shown["debug"], {"debug", "info", "warning"})
        self.assertEqual(shown["info"], {"info", "warning"})
        self.assertEqual(shown["warn"], {"warning"})
        self.assertEqual(shown["error"] | shown["off"], set())
        facts = self.succeed(*run, "debug").stderr
        self.assertIn("rank 0: weights", facts)
        self.assertIn("rank 1: weights", facts)
        self.assertEqual(self.succeed(*run, "debug", "--quiet").stderr, "")
        for command in (["inspect"], ["tokenize", "-p", "x"], ["detokenize", "--tokens", "1"]):
            run = [*command, "-m", self.model, "--log-level"]
            self.assertIn("[debug]", self.succeed(*run, "debug").stderr)
            self.assertEqual(self.succeed(*run, "warn").stderr, "")
            self.assertEqual(self.succeed(*run, "debug", "--quiet").stderr, "")

    # ---- the environment ----

    def test_instruction_sets(self):
        """An unknown one is refused before anything is opened."""
        source = ["-m", self.folder / "missing.gguf", "--tokens", "1"]
        for command in ("generate", "logits", "verify"):
            self.refuse(2, ["LOCKSTEP_FORCE_ISA", "'sse9'", "reference"], command, *source, LOCKSTEP_FORCE_ISA="sse9")
        for isa in ("", "reference"):
            self.succeed("generate", "-m", self.ids_only, "--tokens", "1", "-n", "1", LOCKSTEP_FORCE_ISA=isa)

    def test_faults_of_ranks_that_are_not_there(self):
        for command in ("generate", "logits"):
            self.refuse(2, ["LOCKSTEP_TEST_FAULT", "rank 2", "0 to 1"], command, "-m", self.ids_only, "--tokens", "1",
                        "--tp-size", "2", LOCKSTEP_TEST_FAULT="2:0:throw")  # fmt: skip
        verify = ["verify", "-m", self.ids_only, "--tokens", "1", "--quiet", "--tp-sizes"]
        self.succeed(*verify, "1,2", LOCKSTEP_TEST_FAULT="2:0:throw")
        self.refuse(1, ["rank 2"], *verify, "1,2,3", LOCKSTEP_TEST_FAULT="2:0:throw")
        self.refuse(2, ["LOCKSTEP_TEST_COMM_DELAY_US", "60000000"], "generate", "-m", self.ids_only, "--tokens", "1",
                    LOCKSTEP_TEST_COMM_DELAY_US="60000001")  # fmt: skip

    # ---- the process ----

    def run_in(self, arguments, setting, stdout=subprocess.PIPE):
        """Runs after `setting` has been called in the new process."""
        command = [BINARY, *map(str, arguments)]
        return subprocess.run(command, preexec_fn=setting, stdout=stdout, stderr=subprocess.PIPE, text=True)

    def test_standard_output_that_is_full(self):
        runs = [["generate", "-m", self.ids_only, "--quiet", "--tokens", "1", *json] for json in ([], ["--json"])]
        runs += [["inspect", "-m", self.ids_only], ["--version"], ["--help"], *([command, "--help"] for command in COMMANDS)]
        for run in runs:
            with open("/dev/full", "wb") as full:
                done = self.run_in(run, None, stdout=full)
            self.assertEqual(done.returncode, 1, run)
            self.assertRegex(done.stderr, r"^lockstep: standard output .*\n$")

    def test_standard_output_that_nobody_reads(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = self.run_in(["inspect", "-m", self.ids_only], None, stdout=writer)
        os.close(writer)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^lockstep: standard output .*\n$")

    def test_standard_descriptors_that_are_closed(self):
        """No file gets their numbers, so nothing that is printed goes astray."""
        run = ["logits", "-m", self.ids_only, "--tokens", "1,2", "--log-level", "debug", "--out"]
        self.succeed(*run, self.folder / "open.npy")
        for closed in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
            out = self.folder / "closed.npy"
            done = self.run_in([*run, out], lambda closed=closed: [os.close(fd) for fd in closed])
            self.assertEqual(done.returncode, 1 if 1 in closed else 0, closed)  # the summary could not be printed
            self.assertEqual(out.read_bytes(), (self.folder / "open.npy").read_bytes(), closed)
            self.assertEqual("standard output" in done.stderr, 1 in closed and 2 not in closed, closed)
            out.unlink()

    def test_files_that_would_be_too_long(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        run = ["logits", "-m", self.ids_only, "--tokens", ",".join(["1"] * 40), "--out", self.folder / "limited.npy",
               "--log-level", "warn"]  # fmt: skip
        done = self.run_in(run, limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^lockstep: --out .* could not be written to its end: .*\n$")
        self.assertFalse((self.folder / "limited.npy").exists())
        with open(self.folder / "limited.txt", "wb") as file:
            done = self.run_in(["--help"], lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)), stdout=file)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^lockstep: standard output could not be written to its end: .*\n$")

    def test_flags_take_no_memory(self):
        """What --max-tokens asks for is refused by what it would need, not by room for the tokens themselves."""
        key = b"llama.context_length"
        model = bytearray(self.ids_only.read_bytes())
        struct.pack_into("<I", model, model.index(key) + len(key) + 4, 2**31 - 1)  # after the value's type
        (self.folder / "long.gguf").write_bytes(model)
        run = ["generate", "-m", self.folder / "long.gguf", "--tokens", "1", "-n", "2000000000"]
        done = self.run_in(run, lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^lockstep: .*KV cache.* 2000000001 positions.*--ctx.*\n$")

    # ---- tokenizers ----

    def write_model(self, name, **vocabulary):
        file = self.folder / name
        file.write_bytes(with_byte_vocabulary(self.ids_only.read_bytes(), **vocabulary))
        return file

    def test_models_run_without_a_usable_tokenizer(self):
        ids = self.json_of("generate", "-m", self.ids_only, "--tokens", "7,8", "-n", "5")["tokens"]
        for file, words in [
            (self.write_model("unsupported.gguf", pre="strange"), ["tokenizer.ggml.pre", "'strange'"]),
            (self.write_model("malformed.gguf", special=("<a>", "<a>")), ["tokenizer.ggml.tokens[257]", "'<a>'"]),
            (self.write_model("bos.gguf", bos=300), ["bos_token_id", "300"]),
            (self.ids_only, ["no tokenizer"]),
        ]:
            run = ["generate", "-m", file, "--tokens", "7,8", "-n", "5"]
            report = self.json_of(*run)
            self.assertEqual((report["tokens"], report["text"]), (ids, ""))
            shown = self.succeed(*run)
            self.assertEqual([int(word) for word in shown.stdout.split()], ids)
            for word in [file, "ids", *words]:
                self.assertEqual(shown.stderr.count(str(word)) > 0, True, (word, shown.stderr))
            self.assertEqual(shown.stderr.count("[warning]"), 1, shown.stderr)  # said once
            self.assertEqual(self.succeed(*run, "--quiet").stderr, "")
            self.succeed("logits", "-m", file, "--tokens", "7,8")
            self.succeed("verify", "-m", file, "--tp-sizes", "1")
            for command in ("generate", "logits", "verify"):
                self.refuse(1, [file, "--tokens", *words], command, "-m", file, "-p", "x")
            for command in (["tokenize", "-p", "x"], ["detokenize", "--tokens", "1"]):
                self.refuse(1, [file, *words], command[0], "-m", file, *command[1:])
                self.assertNotIn("--tokens", lockstep(command[0], "-m", file, *command[1:]).stderr)  # no way out here

    def test_vocabularies_of_another_size(self):
        large = self.write_model("large.gguf", special=[f"<{i}>" for i in range(50)])
        for command in ("generate", "logits", "verify"):
            self.refuse(1, [large, 306, 257, "--tokens"], command, "-m", large, "-p", "x")
            self.succeed(command, "-m", large, "--tokens", "256")
        self.assertEqual(self.json_of("tokenize", "-m", large, "-p", "<49>", "--parse-special")["tokens"], [305])
        small = self.write_model("small.gguf", special=())  # the model's last id has no text
        self.assertEqual(self.json_of("generate", "-m", small, "-p", "x", "-n", "4")["prompt_tokens"], 1)

    def test_bytes_without_a_token(self):
        model = self.write_model("some_bytes.gguf", without=b"z\xc3", special=("<z>",))
        for command in ("tokenize", "generate", "logits", "verify"):
            self.refuse(1, [model, "0x7a", "offset 2"], command, "-m", model, "-p", "abz")
            self.refuse(1, [model, "0xc3", "offset 1"], command, "-m", model, "-p", "aé")
            self.refuse(1, [model, "0x7a", "offset 1"], command, "-m", model, "-p", "<z>")
            self.succeed(command, "-m", model, "-p", "a<z>", "--parse-special")

    def test_prompts_that_cannot_fit(self):
        """Whatever their tokens are: the longest of this vocabulary is 7 bytes, the context 256 tokens."""
        self.succeed("generate", "-m", self.model, "-p", "<|end|>" * 256, "--parse-special", "-n", "1")
        self.refuse(1, ["1799 bytes", "at least 257 tokens", 256], "generate", "-m", self.model, "-p", "x" * 1799)
        self.refuse(1, ["1798 tokens", 256], "generate", "-m", self.model, "-p", "x" * 1798)
        self.refuse(1, ["70 bytes", "at least 10 tokens", "--ctx holds 9"], "logits", "-m", self.model, "-p", "x" * 70,
                    "--ctx", "9")  # fmt: skip

    def test_verify_fits_its_prompt(self):
        for context in ("9", "20", "256"):
            self.succeed("verify", "-m", self.ids_only, "--tp-sizes", "1", "--ctx", context)
        self.refuse(1, ["9 positions", "--ctx holds 8"], "verify", "-m", self.ids_only, "--ctx", "8")
        tokens = ["--tp-sizes", "1", "--tokens", "1,2,3"]
        self.succeed("verify", "-m", self.ids_only, *tokens, "--ctx", "11")
        self.refuse(1, ["11 positions", "--ctx holds 10"], "verify", "-m", self.ids_only, *tokens, "--ctx", "10")
        long = ",".join(["1"] * 249)
        self.refuse(1, ["257 positions", self.ids_only, 256], "verify", "-m", self.ids_only, "--tokens", long)


if __name__ == "__main__":
    main()
