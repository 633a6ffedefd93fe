"""Vocabularies as GGUF files hold them, and the Hugging Face `tokenizers` objects that are their reference.

A vocabulary is a dict: pre, tokens, types, merges ("left right"), and the ids bos, eos (or None).
"""

import itertools
import json
import lzma
import pathlib
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _split(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def pre_tokenizer(pre):
    """The pre-tokenizer of the original tokenizer.json behind each name of tokenizer.ggml.pre."""
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return {
        "gpt-2": words,
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words]),
        "llama-bpe": _split(_LLAMA3),
        "qwen2": _split(_QWEN2),
        "tekken": _split(_TEKKEN),
    }[pre]


def build(vocabulary):
    """The Hugging Face tokenizer of a vocabulary."""
    pre = vocabulary["pre"]
    tokens, types = vocabulary["tokens"], vocabulary["types"]
    model = models.BPE(
        vocab={token: i for i, token in enumerate(tokens)},
        merges=[tuple(merge.split(" ")) for merge in vocabulary["merges"]],
        ignore_merges=pre in ("llama-bpe", "tekken"),
    )
    tokenizer = Tokenizer(model)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, types):
        if kind == CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True)])
        elif kind == USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=False)])
    return tokenizer


def encode(tokenizer, text, parse):
    """Ids, with special tokens parsed or taken as text. No beginning-of-sequence token."""
    tokenizer.encode_special_tokens = not parse
    return tokenizer.encode(text, add_special_tokens=False).ids


def unknown_to_normalizer(tokenizer):
    """The combining marks (and composed characters) that this Python's Unicode knows and the tokenizer's normaliser does
    not, because its tables are older. On text without them, all versions of Unicode agree about NFC."""
    if tokenizer.normalizer is None:
        return set()
    differs = lambda text: tokenizer.normalizer.normalize_str(text) != unicodedata.normalize("NFC", text)
    unknown = set()
    for c in map(chr, itertools.chain(range(0xD800), range(0xE000, 0x110000))):
        decomposed = unicodedata.normalize("NFD", c)
        marks = ("\u0334", "\u0316", "\u0301") if unicodedata.combining(c) else ()
        if differs(c) or differs(decomposed) or any(differs("q" + c + m) or differs("q" + m + c) for m in marks):
            unknown.update(c, decomposed[1:])
    return unknown


def without(text, characters):
    return text.translate({ord(c): None for c in characters})


def vocabulary_of_gguf(path):
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else None
    return {
        "pre": get("pre"),
        "tokens": get("tokens"),
        "types": get("token_type"),
        "merges": get("merges"),
        "bos": get("bos_token_id"),
        "eos": get("eos_token_id"),
    }


def vocabulary_of_tokenizer_json(path, pre):
    """(vocabulary, Hugging Face tokenizer) of a tokenizer.json or tokenizer.json.xz, the latter used as it is."""
    path = pathlib.Path(path)
    text = (lzma.open(path) if path.suffix == ".xz" else open(path, "rb")).read().decode()
    definition = json.loads(text)
    added = {token["id"]: token for token in definition["added_tokens"]}
    texts = {i: token for token, i in definition["model"]["vocab"].items()}
    texts.update({i: token["content"] for i, token in added.items()})
    size = max(texts) + 1
    kind = lambda i: NORMAL if i not in added else CONTROL if added[i]["special"] else USER_DEFINED
    vocabulary = {
        "pre": pre,
        "tokens": [texts.get(i, f"[PAD{i}]") for i in range(size)],
        "types": [kind(i) if i in texts else UNUSED for i in range(size)],
        "merges": [m if isinstance(m, str) else " ".join(m) for m in definition["model"]["merges"]],
        "bos": None,
        "eos": None,
    }
    return vocabulary, Tokenizer.from_str(text)
