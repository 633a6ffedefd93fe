"""Makes tests/fixtures/text/PRE.json: small byte-level BPE vocabularies as GGUF files hold them, trained here, with what Hugging
Face `tokenizers` makes of some strings; and sentence_piece.json and no_prefix.json, the same of vocabularies with scores.

    python tests/oracle/make_tokenizer_fixtures.py

Each file: the versions it was made with; the vocabulary; `encode`: text, ids with special tokens parsed, ids with them as
text, and the text of the first ids; `decode`: random ids with their text, special tokens shown and hidden; `long`: a unit
repeated, its ids as [id, count] runs.
"""

import itertools
import json
import pathlib
import platform
import random

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokenizer_oracle as oracle
import tokenizer_strings

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "text"

# Some lie inside others, or overlap, so that leftmost-longest has something to decide. None is a whole piece: where whole
# pieces come first, Hugging Face would make such a control token even from text (its own vocabulary entry matches).
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_start|>system", "t|><|im", "京<|"]
USER_DEFINED = ["<think>", "</think>", "im_", "\n\n\n\n", "東京"]
# Tokens no merge leads to: taken only where the pre-tokenizer says that whole pieces come first.
UNREACHABLE = ["Ġlazy", "Ġunreachable", "zqzq"]
# Joins the last byte of U+180E to "!": only where a pattern does not take U+180E for white space, as Unicode does not.
NOT_SPACE = ("İ", "!")


def train(pre, size, all_bytes):
    """A vocabulary of about `size` tokens. Without all_bytes it holds only the bytes of the corpus, as SmolLM2's does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = oracle.pre_tokenizer(pre)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    corpus = (tokenizer_strings.PROSE + tokenizer_strings.CODE + tokenizer_strings.URLS) * 4
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if all_bytes else []
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(vocab_size=size, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False),
    )
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [oracle.CONTROL if token in CONTROL else oracle.NORMAL for token in tokens]
    for token in UNREACHABLE:
        assert token not in tokens
        tokens.append(token)
        types.append(oracle.NORMAL)
    for token in USER_DEFINED:
        assert token not in tokens
        tokens.append(token)
        types.append(oracle.USER_DEFINED)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    if all(part in tokens for part in NOT_SPACE):
        tokens.append("".join(NOT_SPACE))
        types.append(oracle.NORMAL)
        merges.append(" ".join(NOT_SPACE))
    return {
        "pre": pre,
        "tokens": tokens,
        "types": types,
        "merges": merges,
        "bos": tokens.index("<|im_start|>"),
        "eos": tokens.index("<|im_end|>"),
    }


def train_sentence_piece(add_space_prefix):
    """A vocabulary as SentencePiece has it: special tokens, one for each byte, and pieces whose scores are their order."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    corpus = (tokenizer_strings.PROSE + tokenizer_strings.CODE + tokenizer_strings.URLS) * 4
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=700, limit_alphabet=90, show_progress=False))
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    groups = [
        (["<unk>"], oracle.UNKNOWN),
        (["<s>", "</s>", "<start>"], oracle.CONTROL),
        (["  ", "   ", "    ", "<think>", "\n\n"], oracle.USER_DEFINED),
        ([f"<0x{byte:02X}>" for byte in range(256)], oracle.BYTE),
        ([piece for piece in pieces if piece not in ("▁▁", "▁▁▁", "▁▁▁▁", "\n\n")], oracle.NORMAL),
    ]
    tokens = [token for group, _ in groups for token in group]
    return {
        "model": "llama",
        "tokens": tokens,
        "types": [kind for group, kind in groups for _ in group],
        "scores": [float(-i) for i in range(len(tokens))],
        "bos": 1,
        "eos": 2,
        "unknown": 0,
        "add_space_prefix": add_space_prefix,
    }


def sentence_piece_fixture(add_space_prefix, seed):
    vocabulary = train_sentence_piece(add_space_prefix)
    tokenizer = oracle.build(vocabulary)
    special = ["<s>", "</s>", "<start>", "<think>", "<unk>"]
    encode, decode = [], []
    for text in [*special, "  a", "a  b   c", *tokenizer_strings.strings(200, seed, special, long_size=200)]:
        ids = oracle.encode(tokenizer, text, parse=True)
        shown = tokenizer.decode(ids, skip_special_tokens=False)
        encode.append({"text": text, "parse": ids, "as_text": oracle.encode(tokenizer, text, parse=False), "shown": shown})
    rng = random.Random(seed)
    for _ in range(100):
        ids = rng.choices([*range(9), *range(9, len(vocabulary["tokens"]), 3)], k=rng.randint(1, 30))
        texts = [tokenizer.decode(ids, skip_special_tokens=hide) for hide in (False, True)]
        decode.append({"ids": ids, "shown": texts[0], "hidden": texts[1]})
    made_with = {"tokenizers": tokenizers.__version__, "python": platform.python_version(), "seed": seed}
    return {"made_with": made_with, "vocabulary": vocabulary, "encode": encode, "decode": decode}


def runs(ids):
    return [[i, len(list(group))] for i, group in itertools.groupby(ids)]


def fixture(pre, size, all_bytes, seed):
    vocabulary = train(pre, size, all_bytes)
    tokenizer = oracle.build(vocabulary)
    special = CONTROL + USER_DEFINED
    texts = [*special, *UNREACHABLE, " lazy unreachable zqzq lazyzqzq", "\u180e! a\u180e!\u180e !"]
    unknown = oracle.unknown_to_normalizer(tokenizer)
    texts += [oracle.without(t, unknown) for t in tokenizer_strings.strings(400, seed, special, long_size=200)]
    encode = []
    for text in texts:
        ids = oracle.encode(tokenizer, text, parse=True)
        shown = tokenizer.decode(ids, skip_special_tokens=False)
        encode.append({"text": text, "parse": ids, "as_text": oracle.encode(tokenizer, text, parse=False), "shown": shown})
    rng = random.Random(seed)
    decode = []
    size = len(vocabulary["tokens"])
    some = [*range(300), *range(size - 10, size)]  # special tokens, single bytes, user-defined tokens
    for _ in range(200):
        ids = rng.choices(some, k=rng.randint(1, 30))
        texts = [tokenizer.decode(ids, skip_special_tokens=hide) for hide in (False, True)]
        decode.append({"ids": ids, "shown": texts[0], "hidden": texts[1]})
    long = []
    for unit in ("a", "in", "\n", " ", "7", "="):
        count = 100_000 // len(unit)
        found = runs(oracle.encode(tokenizer, unit * count, parse=True))
        assert len(found) < 100, unit
        long.append({"unit": unit, "count": count, "runs": found})
    return {
        "made_with": {"tokenizers": tokenizers.__version__, "python": platform.python_version(), "seed": seed},
        "vocabulary": vocabulary,
        "encode": encode,
        "decode": decode,
        "long": long,
    }


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for seed, (pre, all_bytes) in enumerate(
        [("gpt-2", True), ("smollm", False), ("llama-bpe", True), ("qwen2", True), ("tekken", True)]
    ):
        path = OUT / f"{pre}.json"
        path.write_text(json.dumps(fixture(pre, 700, all_bytes, seed), separators=(",", ":")) + "\n")
        print(path.name, path.stat().st_size, "bytes")
    for name, add_space_prefix in (("sentence_piece", True), ("no_prefix", False)):
        path = OUT / f"{name}.json"
        path.write_text(json.dumps(sentence_piece_fixture(add_space_prefix, 7), separators=(",", ":")) + "\n")
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
