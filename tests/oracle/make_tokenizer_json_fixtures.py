"""Makes tests/fixtures/text/json/NAME.tokenizer.json, a small tokenizer of every kind, trained here, and NAME.json, what
Hugging Face `tokenizers` makes of some strings with it; and tests/fixtures/text/scripts.json, its scripts of all characters.

    python tests/oracle/make_tokenizer_json_fixtures.py [NAME...]

With names, these tokenizers alone.

NAME.json has: the versions it was made with; `encode`: text, ids with special tokens parsed,
ids with them as text (null where Hugging Face's model makes special tokens of it, which lockstep's never does), ids with what
the post-processor adds, and the text of the first ids; `decode`: random ids with their text, special tokens shown and hidden.
"""

import json
import pathlib
import platform
import random
import sys
import tempfile

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tokenizer_oracle as oracle
import tokenizer_strings

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "text" / "json"
CORPUS = (tokenizer_strings.PROSE + tokenizer_strings.CODE + tokenizer_strings.URLS) * 4
SIZE = 600
STRINGS = 120

special = lambda text, **flags: AddedToken(text, special=True, normalized=False, **flags)


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def bpe(tokenizer, size=SIZE, specials=("<unk>", "<s>", "</s>"), **settings):
    return train(tokenizer, trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False, **settings))


def unigram(tokenizer, specials=("<unk>", "<s>", "</s>")):
    trainer = trainers.UnigramTrainer(vocab_size=SIZE, special_tokens=list(specials), unk_token="<unk>", show_progress=False)
    return train(tokenizer, trainer)


def word_piece(tokenizer):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return train(tokenizer, trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=specials, show_progress=False))


def word_level(tokenizer):
    trainer = trainers.WordLevelTrainer(vocab_size=SIZE, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    return train(tokenizer, trainer)


def changed(tokenizer, change):
    """The tokenizer with its JSON changed."""
    definition = json.loads(tokenizer.to_str())
    change(definition)
    return Tokenizer.from_str(json.dumps(definition))


def with_bytes(tokenizer, **settings):
    """The model with the 256 tokens of bytes that byte fallback needs, and with these settings."""

    def change(definition):
        vocab = definition["model"]["vocab"]
        for byte in range(256):
            if isinstance(vocab, dict):
                vocab[f"<0x{byte:02X}>"] = len(vocab)
            else:
                vocab.append([f"<0x{byte:02X}>", -20.0])
        definition["model"].update(byte_fallback=True, **settings)

    return changed(tokenizer, change)


def byte_level_alphabet():
    return {"initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet())}


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    t.decoder = decoders.ByteLevel()
    t = bpe(t, **byte_level_alphabet())
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("im_", normalized=True)])
    return t


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(oracle._LLAMA3), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    t = bpe(t, specials=["<|end|>", "<|begin|>"], **byte_level_alphabet())
    t.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|begin|> $A", "<|begin|> $A <|begin|> $B", [("<|begin|>", 1)]),
        ]
    )
    return t


def gpt4o():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    pattern = (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "removed", invert=True), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    return bpe(t, **byte_level_alphabet())


def deepseek():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
            pre_tokenizers.Split(Regex("[一-龥\u3040-ゟ゠-ヿ]+"), "isolated"),
            pre_tokenizers.Split(
                Regex(
                    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
                ),
                "isolated",
            ),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    return bpe(t, specials=["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], **byte_level_alphabet())


def byte_level_normalizer():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()])
    t.pre_tokenizer = pre_tokenizers.Split(Regex("Ġ?[A-Za-z]+|Ġ|[^Ġ]+?"), "isolated")
    t.decoder = decoders.ByteLevel()
    return bpe(t, **byte_level_alphabet())


def alphabet_in_the_middle():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(False, use_regex=True), pre_tokenizers.Digits(True)])
    t.decoder = decoders.ByteLevel()
    return bpe(t, **byte_level_alphabet())


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # while training
    t = bpe(t, size=400)
    t = with_bytes(t)
    t.pre_tokenizer = None
    t.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    t.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    t.add_tokens([AddedToken("▁▁", normalized=False), AddedToken("<think>", normalized=False)])
    return t


def gemma():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    t = with_bytes(bpe(t, size=400))
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return t


def unknown_tokens():
    """Tokens for what is unknown, one a character, and no decoder."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\w+"), "merged_with_previous"), pre_tokenizers.Digits(individual_digits=False)]
    )
    return bpe(t, size=300, limit_alphabet=60)


def ends_of_words():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")])
    t.decoder = decoders.BPEDecoder("</w>")
    t = bpe(t, end_of_word_suffix="</w>")
    t.add_tokens([AddedToken("STRASSE", normalized=True), AddedToken("Éa", normalized=True, single_word=True)])
    return t


def continuing_prefix():
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    t.normalizer = normalizers.NFKD()
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.WordPiece("##", cleanup=True)
    return bpe(t, continuing_subword_prefix="##")


def t5():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    t.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    t = unigram(t)
    t.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 2)])
    t.add_special_tokens([special("<mask>", lstrip=True), special("<x>", rstrip=True), special("<b>", lstrip=True, rstrip=True)])
    return t


def unigram_bytes():
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=True)
    t = with_bytes(unigram(t))
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="first")])
    return t


def unigram_fused():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Replace(Regex(r"[\n\t]+"), " "), normalizers.Strip(left=False, right=True)])
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme="always")]
    )
    t = unigram(t)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Replace("e ", "E_"), decoders.Strip(" ", 2, 0)])
    return t


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece("##", cleanup=True)
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return word_piece(t)


def bert_cased():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    t.normalizer = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.CharDelimiterSplit(" "), pre_tokenizers.Punctuation("merged_with_next")]
    )
    t.decoder = decoders.WordPiece("##", cleanup=False)
    t = word_piece(t)
    t.add_tokens([AddedToken("fox", single_word=True, normalized=False), AddedToken("the", single_word=True, lstrip=True)])
    return t


def behaviors():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\b"), "isolated"),
            pre_tokenizers.Split(Regex(r"a|e*"), "contiguous"),
            pre_tokenizers.Split(Regex(r"\d|\s"), "merged_with_next", invert=True),
            pre_tokenizers.Punctuation("removed"),
        ]
    )
    t.decoder = decoders.Sequence([decoders.Replace(Regex("[ae]"), "<a>"), decoders.Strip("t", 1, 0), decoders.Fuse()])
    return bpe(t)


def whole_words():
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.normalizer = normalizers.Lowercase()
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t = word_level(t)
    t.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", [("<s>", 1), ("</s>", 2)])
    t.add_tokens([AddedToken("the", single_word=True, normalized=True), AddedToken("<think>", normalized=False)])
    return t


def whole_words_of_bytes():
    """Words are as long as a special token."""
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.FixedLength(3), pre_tokenizers.ByteLevel(False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    return word_level(t)


def fixed_length():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFD()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[\r\n]+"), "isolated"),
            pre_tokenizers.FixedLength(length=5),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    return bpe(t, **byte_level_alphabet())


def scripts():
    """A mark before every word, so that every cut is seen."""
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.UnicodeScripts(),
            pre_tokenizers.FixedLength(length=40),
            pre_tokenizers.Metaspace("▁", prepend_scheme="always"),
        ]
    )
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="always")])
    return with_bytes(unigram(t))


def charsmap_rules(seed=7, count=300):
    """What becomes of keys: some by design, for how clusters are cut and looked up; the rest by chance."""
    rules = {
        "a": "A", "ab": "no", "a\u0301": "no", "e\u0301": "É", "e\u0301\u0308": "no", "o\u0302\u0301": "no", "u\u0308": "",
        "\u0308": "", "\u0316": "!", "\u0001": "", "\u0007": "", "\r": " ", "\t": " ", "\u0600": "N", "\u06dd": "", "\ufb03": "ffi",
        "\ufdfa": "four words of it", "\u0915": "k", "\u0915\u0301": "no", "\u0924\u0301": "T", "\u094d": "", "\u1100": "g",
        "\u1161": "a", "\u1100\u1161": "no", "\u11a8": "", "\uac00": "ga", "\uac01": "", "\u304b": "ka", "\u3099": "",
        "\u00a9\ufe0f": "(c)", "\u00ae": "(r)", "\u200d": "", "\u0e33": "am", "\U0001f1eb": "F", "\U0001f44d": "+1", "\u3000": " ",
        "\u2581": " ", "\ufeff": "", "\u200b": " ", "\u00a8": " \u0308", "\U000110bd": "K",
    }  # fmt: skip
    made = tokenizer_strings.Strings(seed)
    while len(rules) < count:
        key = made.some(made.rng.choice(made.blocks), 1) + "".join(made.rng.choices(made.marks, k=made.rng.choice((0, 0, 1, 1, 2))))
        if "\0" not in key:
            rules.setdefault(key, "".join(made.rng.choices("xyzé日 \u0301", k=made.rng.choice((0, 1, 1, 2, 3)))))
    return rules


def charsmap(rules):
    """The precompiled_charsmap that sentencepiece makes of them: field 2 of normalizer_spec, field 3 of its model."""
    import sentencepiece

    codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.writelines(f"{codes(key)}\t{codes(replacement)}\n" for key, replacement in rules.items())
        file.flush()
        message = sentencepiece.SentencePieceNormalizer(rule_tsv=file.name).serialized_model_proto()
    for wanted in (3, 2):
        message = dict(protobuf_fields(message))[wanted]
    return message


def protobuf_fields(message):
    """Number and value of the fields that have a length; no others come before what is wanted."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value

    while at < len(message) and message[at] & 7 == 2:
        number, size = varint() >> 3, varint()
        yield number, message[at : at + size]
        at += size


def precompiled():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(charsmap_rules())), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first")
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="first")])
    t = with_bytes(unigram(t))
    t.add_tokens([AddedToken("ff", normalized=True), AddedToken("\u3000A", normalized=True), AddedToken("<a>", normalized=False)])
    return t


def precompiled_texts():
    rng = random.Random(8)
    pieces = [*charsmap_rules(), *charsmap_rules(), *"abeo\r\n\0 ", *["\u0301", "\u0308", "\u200d", "\u094d", "\u0915"] * 10]
    by_design = [
        "\ufb03x", "x\ufb03", "\ufb03\1x", "\1\1a", "\r\n", "\u06dda", "\u0915\u094d\u0915\u0301", "\u0915\u0301\u0915\u0301",
        "\u0915\u200c\u094d\u0915\u0301", "\u0915\u094d\u200d\u0924\u0301", "\u1000\u1039\u0915\u0301", "\u1000\u0915\u0301",
        "\u1021\u17d2\u0924\u0301", "\ua984\ua9c0\u0924\u0301", "\ua98f\ua9c0\u0924\u0301", "\U00011a3aa\u0301",
    ]  # fmt: skip
    return [*by_design, *("".join(rng.choices(pieces, k=rng.randint(1, 12))) for _ in range(80))]


def nmt():
    """As `tokenizers` trains what it calls SentencePiece."""
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    t.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    return unigram(t)


def beginnings():
    """What begins a text after something was taken away in front of it, or put there."""
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True),
            normalizers.Replace("qu", ""),
            normalizers.Replace(Regex("w+"), "y"),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Replace(Regex("x"), " z"),
            normalizers.Strip(left=True, right=False),
        ]
    )
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first")
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="first")])
    t = with_bytes(unigram(t))
    t.add_tokens([AddedToken("ff", normalized=True), AddedToken("i", normalized=True)])
    return t


def beginnings_texts():
    pieces = ["\1", "\u0301", "qu", "w", "ww", "\ufb03", "\u0130", "的", "\ufeff", "\u00a8", "a", "x", " "]
    return [a + b + c for a in pieces for b in pieces for c in ("", "b")]


def ctc():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    t.decoder = decoders.Sequence(
        [
            decoders.Replace("t", "|"),
            decoders.CTC(pad_token="a", word_delimiter_token="e", cleanup=False),
            decoders.CTC(pad_token="<s>", word_delimiter_token="|", cleanup=True),
            decoders.Strip("h", 1, 0),
        ]
    )
    return bpe(t, size=200)


MORE_TEXTS = {precompiled: precompiled_texts, beginnings: beginnings_texts}

KINDS = [
    gpt2, llama3, gpt4o, deepseek, byte_level_normalizer, alphabet_in_the_middle, llama2, gemma, unknown_tokens, ends_of_words,
    continuing_prefix, t5, unigram_bytes, unigram_fused, bert, bert_cased, behaviors, whole_words, whole_words_of_bytes,
    fixed_length, scripts, precompiled, nmt, beginnings, ctc,
]  # fmt: skip


def fixture(tokenizer, seed, more):
    added = tokenizer.get_added_tokens_decoder()
    texts = [token.content for token in added.values()]
    unknown = next((t for t in ("<unk>", "[UNK]") if tokenizer.token_to_id(t) is not None), "\0")
    hidden = {i for i, token in added.items() if token.special and token.content != unknown}
    made = tokenizer_strings.Strings(seed, [f" {t} " if i % 3 == 0 else t for i, t in enumerate(texts)])
    strings = ["", " ", "  a", "\n", "a", *texts, *(made.string() for _ in range(STRINGS)), *more]
    newer = NEWER
    encode = []
    for text in strings:
        text = oracle.without(text, newer)[:400]
        ids = oracle.encode(tokenizer, text, parse=True)
        as_text = oracle.encode(tokenizer, text, parse=False)
        tokenizer.encode_special_tokens = False
        encode.append(
            {
                "text": text,
                "parse": ids,
                "as_text": None if hidden.intersection(as_text) or unknown in text else as_text,
                "prompt": tokenizer.encode(text).ids,
                "shown": tokenizer.decode(ids, skip_special_tokens=False),
            }
        )
    rng = random.Random(seed)
    size = tokenizer.get_vocab_size()
    common = [*added, *(i for i in range(size) if tokenizer.id_to_token(i).startswith("<0x") or len(tokenizer.id_to_token(i)) == 1)]
    decode = []
    for _ in range(80):
        some = [rng.randrange(size) for _ in range(8)] + rng.choices(common, k=6)
        ids = rng.choices(some, k=rng.randint(1, 20))
        shown, without = (tokenizer.decode(ids, skip_special_tokens=hide) for hide in (False, True))
        decode.append({"ids": ids, "shown": shown, "hidden": without})
    return {
        "made_with": {"tokenizers": tokenizers.__version__, "python": platform.python_version(), "seed": seed},
        "encode": encode,
        "decode": decode,
    }


NEWER = oracle.newer_characters()


def write(path, value):
    path.write_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    if not sys.argv[1:]:
        write(OUT.parent / "scripts.json", oracle.script_ranges())
    for seed, kind in enumerate(KINDS):
        if sys.argv[1:] and kind.__name__ not in sys.argv[1:]:
            continue
        path = OUT / f"{kind.__name__}.json"
        tokenizer = kind()
        write(path.with_suffix(".tokenizer.json"), json.loads(tokenizer.to_str()))
        made = fixture(tokenizer, seed, MORE_TEXTS.get(kind, list)())
        write(path, made)
        nulls = sum(example["as_text"] is None for example in made["encode"])
        print(path.name, path.stat().st_size, "bytes;", nulls, "texts of special tokens")


if __name__ == "__main__":
    main()
