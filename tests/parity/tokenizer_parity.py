"""Compares lockstep's tokenizers with Hugging Face `tokenizers`, id by id, over thousands of seeded strings.

    python tests/parity/tokenizer_parity.py TOKENIZE_LINES [--gguf FILE]... [--tokenizers DIR] [--strings 5000] [--seed 1]

TOKENIZE_LINES is the program built from tests/text/tokenize_lines.cc. Each GGUF FILE is read with the `gguf` package, and
its reference is built from its vocabulary. DIR holds folders with original files, NAME/tokenizer.json.xz, which both sides
read as they are; a folder "gemma3" is also compared with a GGUF of the same vocabulary. Every string is encoded with
special tokens parsed and as text, and decoded; and as many random sequences of tokens are decoded, with special tokens
shown and hidden, whole and streamed. Prints the number of differences, and exits with 1 if there is one. Needs:
tokenizers, gguf.
"""

import argparse
import json
import lzma
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))

import tokenizer_oracle as oracle  # noqa: E402
import tokenizer_strings  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


def run(program, file, lines, special="parse"):
    """The program's answers to the lines."""
    text = "".join(f"{line}\n" for line in lines)
    out = subprocess.run([program, file, special], input=text.encode(), capture_output=True, check=False)
    if out.returncode != 0:
        sys.exit(f"{program} failed: {out.stderr.decode()}")
    answers = [json.loads(line) for line in out.stdout.splitlines()]
    assert len(answers) == len(lines)
    return answers


def characters(hexadecimal):
    """Text as a stream gives it: U+FFFD for each maximal subpart that is no character."""
    return bytes.fromhex(hexadecimal).decode("utf-8", "replace")


class Comparison:
    def __init__(self, name, program, file, tokenizer, arguments):
        self.name, self.program, self.file, self.tokenizer = name, program, file, tokenizer
        self.arguments = arguments
        self.differences = 0
        added = tokenizer.get_added_tokens_decoder()
        self.special = [token.content for token in added.values()]
        self.unknown = oracle.unknown_to_normalizer(tokenizer)

    def report(self, what, of, expected, found):
        self.differences += 1
        if self.differences <= 5:
            at = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
            print(f"  {what} differs at {at}: {of[:80]!r}: {expected[at:at+6]} expected, {found[at:at+6]} found")

    def strings(self):
        texts = tokenizer_strings.strings(self.arguments.strings, self.arguments.seed, self.special)
        return [oracle.without(text, self.unknown) for text in texts]

    def encode(self, texts, modes=("parse", "text")):
        for mode in modes:
            answers = run(self.program, self.file, [text.encode().hex() or "" for text in texts], mode)
            for text, answer in zip(texts, answers):
                ids = oracle.encode(self.tokenizer, text, mode == "parse")
                if answer["ids"] != ids:
                    self.report(f"ids ({mode})", text, ids, answer["ids"])
                shown = self.tokenizer.decode(ids, skip_special_tokens=False)
                if characters(answer["decoded"]) != shown and answer["ids"] == ids:
                    self.report(f"text of the ids ({mode})", text, shown, characters(answer["decoded"]))

    def decode(self):
        rng = random.Random(self.arguments.seed)
        size = self.tokenizer.get_vocab_size()
        common = [self.tokenizer.token_to_id(token) for token in self.special]
        common += [i for i in range(size) if (t := self.tokenizer.id_to_token(i)) and (t.startswith("<0x") or len(t) == 1)]
        sequences = []
        for _ in range(self.arguments.strings):
            some = [rng.randrange(size) for _ in range(10)] + (rng.choices(common, k=6) if common else [])
            sequences.append(rng.choices(some, k=rng.randint(1, 30)))
        answers = run(self.program, self.file, [json.dumps(ids) for ids in sequences])
        for ids, answer in zip(sequences, answers):
            for key, hide in (("shown", False), ("hidden", True)):
                expected = self.tokenizer.decode(ids, skip_special_tokens=hide)
                if characters(answer[key]) != expected:
                    self.report(f"text, special tokens {key},", str(ids), expected, characters(answer[key]))
                if bytes.fromhex(answer[key + "_stream"]).decode() != expected:
                    self.report(f"stream, special tokens {key},", str(ids), expected, characters(answer[key + "_stream"]))
        return len(sequences)

    def summary(self, strings, sequences):
        left_out = f"; {len(self.unknown)} characters newer than the reference's tables left out" if self.unknown else ""
        print(f"{self.name}: {self.differences} differences over {strings} strings, and {sequences} sequences of tokens{left_out}",
              flush=True)
        return self.differences


def compare(name, program, file, tokenizer, arguments):
    comparison = Comparison(name, program, file, tokenizer, arguments)
    texts = comparison.strings()
    comparison.encode(texts)
    return comparison.summary(len(texts), comparison.decode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--gguf", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--tokenizers", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    differences = 0
    originals = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("llama3_1", "qwen3", "gemma3"):
            path = arguments.tokenizers / name / "tokenizer.json.xz" if arguments.tokenizers else None
            if path is None or not path.exists():
                print(f"{name}: SKIPPED, --tokenizers does not hold {name}/tokenizer.json.xz")
                continue
            text = lzma.open(path).read()
            file = pathlib.Path(folder) / f"{name}.json"
            file.write_bytes(text)
            originals[name] = Tokenizer.from_str(text.decode())
            differences += compare(name, arguments.program, file, originals[name], arguments)
        for path in arguments.gguf:
            vocabulary = oracle.vocabulary_of_gguf(path)
            file = pathlib.Path(folder) / f"{path.name}.json"
            file.write_text(json.dumps({"vocabulary": vocabulary}))
            differences += compare(path.name, arguments.program, file, oracle.build(vocabulary), arguments)
            if vocabulary["model"] == "llama" and "gemma3" in originals:
                # What is special differs between the two: it is parsed on both sides.
                comparison = Comparison(f"{path.name} and gemma3", arguments.program, file, originals["gemma3"], arguments)
                size = len(vocabulary["tokens"])
                texts = [t for t in comparison.strings() if max(oracle.encode(originals["gemma3"], t, True), default=0) < size]
                comparison.encode(texts, modes=("parse",))
                differences += comparison.summary(len(texts), 0)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
