"""Seeded strings that tokenizers trip over: all scripts, marks, emoji sequences, code, white space, special tokens.

Used by make_tokenizer_fixtures.py and by tests/parity/tokenizer_parity.py. Only characters this Python's Unicode knows
are drawn, so the strings depend on the seed and on the version of Python.
"""

import random
import unicodedata

PROSE = [
    "The quick brown fox jumps over the lazy dog. It's what they've said; I'll see, you're right, he'd know, I'm sure.",
    "IT'S WHAT THEY'VE SAID; I'LL SEE, YOU'RE RIGHT, HE'D KNOW, I'M SURE. Don’t “quote” me… ",
    "Die Straße führt über die Brücke; größer, älter, schöner. Fußgängerübergänge!",
    "L'été dernier, j'ai mangé une crème brûlée à l'hôtel où naît l'œuvre.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το σκυλί.",
    "敏捷的棕色狐狸跳过了懒狗。人工智能正在改变世界，对吗？",
    "いろはにほへと ちりぬるを。カタカナとひらがなと漢字、東京特許許可局。",
    "다람쥐 헌 쳇바퀴에 타고파. 대한민국의 수도는 서울입니다.",
    "الثعلب البني السريع يقفز فوق الكلب الكسول. مَرْحَبًا بِكُمْ",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם",
    "तेज भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। नमस्ते दुनिया",
    "นกน้อยทำรังแต่พอตัว เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "Đường phố Hà Nội đẹp tuyệt vời vào mùa thu.",
    "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul ılık",
    "ქართული ენა, Հայերեն լեզու, አማርኛ ቋንቋ, ᏣᎳᎩ, ᓀᐦᐃᔭᐍᐏᐣ, தமிழ் மொழி, বাংলা ভাষা",
]

CODE = [
    "def f(x: int = 0) -> str:\n    return f\"{x!r:>10}\\n\"  # ok?\n",
    "#include <vector>\nint main() { std::vector<int> v{1,2,3}; for (auto&& x : v) x <<= 2; return v[0] != 0xFFu; }\n",
    "fn main() {\n\tlet s: &'static str = \"hi\";\n\tprintln!(\"{s:?}\");\n}\n",
    "const f = async ({a, b = `${a}`}) => await Promise.all([...b].map(x => x?.y ?? null)); // TODO\r\n",
    "SELECT a.id, COUNT(*) FROM t AS a WHERE a.x >= 1e-5 AND a.name LIKE '%it''s%' GROUP BY 1;\n",
    "for i in $(seq 1 10); do echo \"$i: ${arr[@]}\" | sed 's/\\(a\\)/\\1/g' >> out.txt 2>&1; done\n",
    '{"key": [1, 2.5e+10, null, true, "\\u00e9\\n"], "nested": {"a": {}}}\n',
    "<div class=\"a b\" id='c'>&nbsp;<!-- x --><br/></div>\n",
    "\\begin{align*} \\frac{\\partial f}{\\partial x} &= \\sum_{i=1}^{n} x_i^2 \\\\ \\end{align*}\n",
    "if(x){\n        y();\n    }\telse\t{ }\n\n\n",
]

URLS = [
    "https://example.org:8080/a/b_c-d/%E2%82%AC?q=1&r=a+b#frag",
    "user.name+tag@sub.example.co.uk",
    "ftp://127.0.0.1/~x/",
    "C:\\Users\\me\\file (1).txt",
    "/usr/lib/x86_64-linux-gnu/libfoo.so.1.2.3",
]

EMOJI = [
    "👨‍👩‍👧‍👦", "👩🏽‍💻", "🏳️‍🌈", "🏴‍☠️", "❤️‍🔥", "👍🏿", "👋🏻", "🇫🇷", "🇯🇵🇺🇸", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "1️⃣", "#️⃣", "☺️", "☺︎", "😀", "🫠", "🧑🏾‍🤝‍🧑🏼", "🇺",
]

WHITE_SPACE = list(" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0") + [
    chr(c) for c in (0x1680, 0x180E, *range(0x2000, 0x200E), 0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF)
]

NORMALISED = [
    "e\u0301", "a\u0328\u0301", "a\u0301\u0328", "\u1112\u1161\u11ab", "\u0958", "\u2126", "\u212b", "\ufb01", "\u0344",
    "q\u0307\u0323", "\u0f73\u0f71", "\ud7a3\u11a7", "\u09c7\u09be", "\u1e9b\u0323", "\uf900", "\U0001d15e", "o\u0302\u0301",
]

CONTRACTIONS = [
    quote + rest for quote in "'’" for rest in ("s", "S", "t", "T", "re", "RE", "rE", "ve", "m", "M", "ll", "lL", "d", "\u017f", "x")
]


def _assigned(first, last):
    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def _blocks():
    """The assigned characters in blocks of 128 code points: about one script each."""
    blocks = [_assigned(first, first + 127) for first in range(0, 0x32000, 128)]
    return [block for block in blocks + [_assigned(0xE0000, 0xE01EF)] if block]


class Strings:
    """A generator of strings. `special` are the special tokens to hide in some of them."""

    def __init__(self, seed, special=()):
        self.rng = random.Random(seed)
        self.special = list(special) or ["<|none|>"]
        self.blocks = _blocks()
        everything = [c for block in self.blocks for c in block]
        self.marks = [c for c in everything if unicodedata.category(c).startswith("M")]
        self.numbers = [c for c in everything if unicodedata.category(c).startswith("N")]
        self.symbols = [c for c in everything if unicodedata.category(c)[0] in "PS"]
        self.letters = [c for c in everything if unicodedata.category(c).startswith("L")]

    def some(self, characters, most):
        return "".join(self.rng.choices(characters, k=self.rng.randint(1, most)))

    def cut(self, texts):
        text = self.rng.choice(texts)
        begin = self.rng.randrange(len(text))
        return text[begin : begin + self.rng.randint(1, 60)]

    def fragment(self):
        rng = self.rng
        return rng.choice(
            [
                lambda: self.cut(PROSE),
                lambda: self.cut(PROSE),
                lambda: self.cut(CODE),
                lambda: rng.choice(CODE),
                lambda: rng.choice(URLS),
                lambda: self.some(rng.choice(self.blocks), 12),
                lambda: self.some(rng.choice(self.blocks), 12),
                lambda: self.some(self.letters, 6),
                lambda: "".join(rng.choice("aeoxAZ가あ") + self.some(self.marks, 4) for _ in range(rng.randint(1, 4))),
                lambda: self.some(NORMALISED, 5),
                lambda: self.some(EMOJI, 4),
                lambda: self.some(WHITE_SPACE, 8),
                lambda: self.some(" \n", 12),
                lambda: rng.choice(" \t\n") * rng.randint(1, 40),
                lambda: self.some("0123456789", 12),
                lambda: self.some(self.numbers, 6),
                lambda: self.some(self.symbols, 6),
                lambda: self.some("!?.,;:-_=+*/\\|<>[]{}()\"'`~@#$%^&", 10),
                lambda: rng.choice(["don", "IT", "ça", "", " "]) + rng.choice(CONTRACTIONS) + rng.choice(["", " ", "x"]),
                lambda: self.some([chr(c) for c in (*range(0x20), *range(0x7F, 0xA0))], 6),
                lambda: rng.choice(self.special),
                lambda: rng.choice(self.special) + rng.choice(self.special),
                lambda: self.cut(self.special),
                lambda: rng.choice(["\ufffd", "\ufeff", "\ue000", "\U000f0000", "\U0010ffff", "\x00", "\u200b", "\u00ad"]),
            ]
        )()

    def string(self):
        return "".join(self.fragment() for _ in range(self.rng.choice((1, 1, 2, 3, 4, 6, 10, 16))))

    def long_strings(self, size):
        """Strings of `size` bytes or a little more without a space."""
        rng = self.rng
        fill = lambda make, width: "".join(make() for _ in range(size // width))
        return [
            "a" * size,
            "ab" * (size // 2),
            fill(lambda: rng.choice("abcdefghijklmnopqrstuvwxyz"), 1),
            fill(lambda: rng.choice("etaoinETAOIN"), 1),
            fill(lambda: rng.choice("0123456789"), 1),
            fill(lambda: rng.choice("=-_#*/!"), 1),
            fill(lambda: rng.choice("的一是不了人我在有他这中大来上国"), 3),
            fill(lambda: rng.choice(self.letters), 3),
            "\n" * size,
            "e" + fill(lambda: rng.choice("\u0301\u0316\u0315"), 2),
        ]


def strings(count, seed, special=(), long_size=100_000):
    """`count` strings: a few long ones, the empty one, and generated ones."""
    made = Strings(seed, special)
    fixed = ["", " ", "  ", "\n", "a", "\x00", *made.long_strings(long_size)][:count]
    return fixed + [made.string() for _ in range(count - len(fixed))]
