"""Compares lockstep's tokenizer with Hugging Face `tokenizers`, id by id, over thousands of seeded strings.

    python tests/parity/tokenizer_parity.py MODEL.gguf TOKENIZE_LINES [--strings 5000] [--seed 1] [--tokenizers DIR]

MODEL.gguf is read with the `gguf` package. TOKENIZE_LINES is the program built from tests/text/tokenize_lines.cc. DIR
holds llama3_1/ and qwen3/ with the original tokenizer.json.xz; without it these two are skipped. Prints the number of
differences, and exits with 1 if there is one. Needs: tokenizers, gguf.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))

import tokenizer_oracle as oracle  # noqa: E402
import tokenizer_strings  # noqa: E402


def ours(program, vocabulary, texts, special):
    """(ids, decoded bytes) of every text, by one run of the program."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(vocabulary, file)
        file.flush()
        lines = "".join(f"{text.hex()}\n" for text in texts)
        out = subprocess.run([program, file.name, special], input=lines.encode(), capture_output=True, check=False)
    if out.returncode != 0:
        sys.exit(f"{program} failed: {out.stderr.decode()}")
    answers = [json.loads(line) for line in out.stdout.splitlines()]
    assert len(answers) == len(texts)
    return [(answer["ids"], bytes.fromhex(answer["decoded"])) for answer in answers]


def missing_bytes(vocabulary):
    """Bytes for which the vocabulary has no token: neither implementation can give them back."""
    byte_to_character = {}
    extra = 0
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174:
            byte_to_character[b] = chr(b)
        else:
            byte_to_character[b] = chr(256 + extra)
            extra += 1
    tokens = set(vocabulary["tokens"])
    return {b for b, character in byte_to_character.items() if character not in tokens}


def compare(name, vocabulary, tokenizer, arguments):
    special = [
        t for t, kind in zip(vocabulary["tokens"], vocabulary["types"]) if kind in (oracle.CONTROL, oracle.USER_DEFINED)
    ]
    unknown = oracle.unknown_to_normalizer(tokenizer)
    texts = [oracle.without(t, unknown) for t in tokenizer_strings.strings(arguments.strings, arguments.seed, special)]
    raw = [text.encode() for text in texts]
    missing = missing_bytes(vocabulary)
    differences = 0
    round_trips = 0

    def report(what, text, expected, found):
        nonlocal differences
        differences += 1
        if differences <= 5:
            at = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
            print(f"  {what} differs at {at}: {text[:80]!r}: {expected[at:at+6]} expected, {found[at:at+6]} found")

    for mode, parse in (("parse", True), ("text", False)):
        for text, (ids, decoded) in zip(texts, ours(arguments.program, vocabulary, raw, mode)):
            expected = oracle.encode(tokenizer, text, parse)
            if ids != expected:
                report(f"ids ({mode})", text, expected, ids)
            # A normaliser changes the text before it is encoded; special tokens are not normalised, but are ASCII.
            before = unicodedata.normalize("NFC", text) if vocabulary["pre"] == "qwen2" else text
            before = before.encode()
            if not missing.intersection(before):
                round_trips += 1
                if decoded != before:
                    report(f"decode(encode(x)) ({mode})", text, before, decoded)

    print(
        f"{name}: {differences} differences over {len(texts)} strings ({sum(map(len, raw))} bytes), special tokens parsed "
        f"and as text; {round_trips} round trips; {len(missing)} bytes have no token"
        + (f"; {len(unknown)} characters newer than the reference's NFC left out" if unknown else "")
    )
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("program")
    parser.add_argument("--strings", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokenizers", type=pathlib.Path)
    arguments = parser.parse_args()

    vocabulary = oracle.vocabulary_of_gguf(arguments.model)
    differences = compare(pathlib.Path(arguments.model).name, vocabulary, oracle.build(vocabulary), arguments)
    for folder, pre in (("llama3_1", "llama-bpe"), ("qwen3", "qwen2")):
        path = arguments.tokenizers / folder / "tokenizer.json.xz" if arguments.tokenizers else None
        if path is None or not path.exists():
            print(f"{folder}: SKIPPED, --tokenizers does not hold {folder}/tokenizer.json.xz")
            continue
        vocabulary, tokenizer = oracle.vocabulary_of_tokenizer_json(path, pre)
        differences += compare(folder, vocabulary, tokenizer, arguments)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
