"""Vocabularies as GGUF files hold them, and the Hugging Face `tokenizers` objects that are their reference.

A vocabulary is a dict: tokens, types, and the ids bos, eos (or None); of "gpt2" also pre and merges ("left right"), of
"llama" scores, unknown and add_space_prefix.
"""

import itertools
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

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
    if vocabulary.get("model") == "llama":
        return build_sentence_piece(vocabulary)
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
    add_tokens(tokenizer, tokens, types)
    return tokenizer


def add_tokens(tokenizer, tokens, types):
    for token, kind in zip(tokens, types):
        if kind in (CONTROL, UNKNOWN):
            tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True)])
        elif kind == USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=False)])


def build_sentence_piece(vocabulary):
    """The same of a vocabulary with scores. As converters of SentencePiece models do it, every way to cut a token into two
    others is a merge; those of larger scores come first."""
    tokens = [t.replace(" ", "▁") if kind == USER_DEFINED else t for t, kind in zip(vocabulary["tokens"], vocabulary["types"])]
    ids = {token: i for i, token in enumerate(tokens)}
    merges = []
    for i, token in enumerate(tokens):
        # Runs of white space are user-defined, and are made before anything else, the longest first.
        is_run = vocabulary["types"][i] == USER_DEFINED and not token.strip("▁")
        if vocabulary["types"][i] not in (NORMAL, UNUSED) and not is_run:
            continue
        score = len(token) if is_run else vocabulary["scores"][i]
        cuts = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        merges += [(is_run, score, left, right) for left, right in cuts if left in ids and right in ids]
    merges.sort(key=lambda merge: (-merge[0], -merge[1]))
    model = models.BPE(
        vocab=ids,
        merges=[merge[2:] for merge in merges],
        unk_token=tokens[vocabulary["unknown"]],
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    prefix = vocabulary["add_space_prefix"]
    mark = [normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), *mark] if prefix else mark)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    add_tokens(tokenizer, tokens, vocabulary["types"])
    return tokenizer


def encode(tokenizer, text, parse):
    """Ids, with special tokens parsed or taken as text. No beginning-of-sequence token."""
    tokenizer.encode_special_tokens = not parse
    return tokenizer.encode(text, add_special_tokens=False).ids


def unknown_to_normalizer(tokenizer):
    """The combining marks (and composed characters) that this Python's Unicode knows and the tokenizer's normaliser does
    not, because its tables are older. On text without them, all versions of Unicode agree about the normal form."""
    form = type(tokenizer.normalizer).__name__
    if form not in ("NFC", "NFD", "NFKC", "NFKD"):
        return set()
    differs = lambda text: tokenizer.normalizer.normalize_str(text) != unicodedata.normalize(form, text)
    unknown = set()
    for c in map(chr, itertools.chain(range(0xD800), range(0xE000, 0x110000))):
        decomposed = unicodedata.normalize("NFD", c)
        marks = ("\u0334", "\u0316", "\u0301") if unicodedata.combining(c) else ()
        if differs(c) or differs(decomposed) or any(differs("q" + c + m) or differs("q" + m + c) for m in marks):
            unknown.update(c, decomposed[1:])
    return unknown


def newer_characters():
    """The characters that the tables of Hugging Face's normalisers and classes are too old for, by what this Python's Unicode
    says of them."""
    newer = set()
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = getattr(normalizers, form)()
        newer |= unknown_to_normalizer(tokenizer)
    bert = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    lower, marks, digits = normalizers.Lowercase(), normalizers.StripAccents(), pre_tokenizers.Digits()
    punctuation = pre_tokenizers.Punctuation("removed")
    for c in map(chr, itertools.chain(range(0x80, 0xD800), range(0xE000, 0x110000))):
        category = unicodedata.category(c)
        agrees = (
            (marks.normalize_str(f"a{c}") == "a") == (category[0] == "M")
            and (accents.normalize_str(f"a{c}") == "a") == (category == "Mn")
            and lower.normalize_str(c) == c.lower()
            and (len(punctuation.pre_tokenize_str(f"a{c}")) == 1 and f"a{c}" != punctuation.pre_tokenize_str(f"a{c}")[0][0])
            == (category[0] == "P")
            and (len(digits.pre_tokenize_str(f"a{c}")) == 2) == (category[0] == "N")
            and (bert.normalize_str(f"a{c}b") == "ab") == (category in ("Cc", "Cf", "Co") or c == "\ufffd")
        )
        if not agrees:
            newer.add(c)
    return newer


def script_ranges():
    """Runs of characters of one script, as UnicodeScripts has them: [first code point, number], 0 for none."""
    words = pre_tokenizers.UnicodeScripts().pre_tokenize_str
    ranges, numbers, last = [], {}, None  # numbers: of one character of each script
    for c in map(chr, itertools.chain(range(0xD800), range(0xE000, 0x110000))):
        number = 0
        if words(c):
            if last is None or len(words(last + c)) != 1:
                last = next((known for known in numbers if len(words(known + c)) == 1), c)
            number = numbers.setdefault(last, len(numbers) + 1)
        if not ranges or ranges[-1][1] != number:
            ranges.append([ord(c), number])
    return ranges


def without(text, characters):
    return text.translate({ord(c): None for c in characters})


def vocabulary_of_gguf(path):
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else None
    vocabulary = {
        "model": get("model"),
        "pre": get("pre"),
        "tokens": get("tokens"),
        "types": get("token_type"),
        "bos": get("bos_token_id"),
        "eos": get("eos_token_id"),
        "unknown": get("unknown_token_id"),
    }
    if vocabulary["model"] == "llama":
        return vocabulary | {"scores": get("scores"), "add_space_prefix": get("add_space_prefix") is not False}
    return vocabulary | {"merges": get("merges")}
