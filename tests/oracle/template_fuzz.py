"""Random chat templates with random variables, from a grammar that is weighted to what published templates use. Most of
them render; some fail, as a template should that adds a number to a text.
"""

import random

TEXTS = ["", "a", "Abc def", "  x  ", "user", "content", "role", "<|im_start|>", "é", "日本語", "👩‍👧 z", "it's", 'say "hi"', "a\nb", "\n\n", "tab\t|",
         "a,b,,c", "ΑΣΣ", "straße", "İi", "ﬁn", "<b>&amp;</b>", "\\", "{x}", "{{", "%s", "1", "-42", " 3.5 ", "1e3", "0x1F", "true", "null", "a-b_c.d",
         "x\u00a0y", "\u200b", "\r\nend", "UPPER lower", "hello world foo", "ǆ ǅ", "\x7f", "\x1f", "1_000", "٣", "½", "a\u2028b"]
WORDS = ["a", "b", "ab", " ", ",", "\n", "x", "1", "é", "<", "", "|>", "user", "lo", "\t", "bc", "Ab"]
NAMES = ["s", "t", "n", "m", "f", "l", "k", "d", "e", "b", "z", "w", "messages", "tools"] * 4 + ["undefined_name", "loop", "ns", "x", "y", "i"]
KEYS = ["role", "content", "a", "b", "name", "items", "keys", "get", "x y", "id", "é"]
INTS = [0, 1, 2, 3, -1, -2, 5, 7, 10, 12, 100, 255, -13, 1000, 65536]
FLOATS = [0.0, 0.5, 1.0, 2.75, -1.5, 3.14159, 1e-7, 1e16, 1.5e300, -0.0, 0.1, 2.5, 100.0, 1234567.891, 123456789012345680.0, 5e-324]
LITERAL_FLOATS = FLOATS[:7] + FLOATS[10:14]  # none from which arithmetic reaches infinity, which jinja2 cannot fold


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.macros = []
        self.loops = 0
        self.spaces = False

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, *options):
        return self.rng.choice(options)

    # ---- Values of variables

    def value(self, depth=2):
        kind = self.rng.randrange(9 if depth else 6)
        if kind == 0:
            return self.rng.choice(INTS)
        if kind == 1:
            return self.rng.choice(FLOATS)
        if kind == 2:
            return self.pick(True, False, None)
        if kind < 6:
            return self.rng.choice(TEXTS)
        if kind == 6:
            return {self.rng.choice(KEYS): self.value(depth - 1) for _ in range(self.rng.randrange(4))}
        return [self.value(depth - 1) for _ in range(self.rng.randrange(4))]

    def message(self):
        message = {"role": self.pick("user", "assistant", "system", "tool")}
        kind = self.rng.randrange(8)
        if kind < 5:
            message["content"] = self.rng.choice(TEXTS)
        elif kind == 5:
            message["content"] = [{"type": "text", "text": self.rng.choice(TEXTS)} for _ in range(self.rng.randrange(3))]
        elif kind == 6:
            message["content"] = None
        if self.chance(0.2):
            message["tool_calls"] = [{"function": {"name": self.rng.choice(TEXTS), "arguments": self.value()}}]
        return message

    def variables(self):
        rng = self.rng
        numbers = [rng.choice(INTS + FLOATS[:5]) for _ in range(rng.randrange(6))]
        texts = [rng.choice(TEXTS) for _ in range(rng.randrange(6))]
        return {
            "s": rng.choice(TEXTS), "t": rng.choice(TEXTS) + rng.choice(TEXTS), "n": rng.choice(INTS[:13]), "m": rng.choice(INTS[:13]),
            "f": rng.choice(FLOATS), "l": numbers, "k": texts, "d": {rng.choice(KEYS): self.value() for _ in range(rng.randrange(12))},
            "e": self.pick("nan", "inf", " -Infinity", self.value(), self.value()), "b": rng.random() < 0.5, "z": None,
            "w": [{"a": rng.choice(INTS), "b": rng.choice(TEXTS), **({"c": self.value()} if rng.random() < 0.5 else {})} for _ in range(rng.randrange(5))],
        }

    # ---- Expressions, by the type they most likely have

    def quoted(self, text):
        quote = self.pick("'", '"')
        out = ""
        for c in text:
            if c in (quote, "\\"):
                out += "\\" + c
            elif c == "\n" and self.chance(0.7):
                out += "\\n"
            elif c == "\t":
                out += "\\t"
            elif ord(c) > 127 and self.chance(0.1) and ord(c) < 0x10000:
                out += f"\\u{ord(c):04x}"
            else:
                out += c
        return quote + out + quote

    def text_literal(self):
        return self.quoted(self.rng.choice(TEXTS if self.chance(0.7) else WORDS))

    def word(self):
        return self.quoted(self.rng.choice(WORDS))

    def small(self):
        return str(self.pick(0, 1, 2, 3, 4, -1, -2, 7))

    def text(self, depth):
        r = self.rng.randrange
        if depth <= 0:
            return self.pick(self.text_literal(), self.text_literal(), "s", "t", "messages[0].role", "(messages[0]['content'] or '')")
        kind = r(34)
        sub = lambda: self.text(depth - 1)
        if kind < 3:
            return self.text_literal()
        if kind < 5:
            return self.pick("s", "t", "x", "y")
        if kind == 5:
            return f"({sub()} + {sub()})"
        if kind == 6:
            return f"({sub()} ~ {self.any(depth - 1)} ~ {self.any(depth - 1)})"
        if kind == 7:
            return f"{self.atom(sub())}.{self.pick('strip', 'lstrip', 'rstrip')}({self.pick('', '', self.word(), self.quoted('ab<'))})"
        if kind == 8:
            return f"{self.atom(sub())}.{self.pick('upper', 'lower', 'title', 'capitalize', 'swapcase', 'casefold')}()"
        if kind == 9:
            return f"{self.atom(sub())}.replace({self.word()}, {self.word()}{self.pick('', ', 1', ', -1', ', 0')})"
        if kind == 10:
            return f"{self.atom(sub())}.split({self.pick('', self.word(), self.word() + ', 1', 'none, 1', 'maxsplit=1')})[{self.pick('0', '-1', '1')}]"
        if kind == 11:
            return f"{self.variable(sub())}[{self.slice()}]"
        if kind == 12:
            return f"{self.atom(sub())}.{self.pick('removeprefix', 'removesuffix')}({self.word()})"
        if kind == 13:
            return f"{self.word()}.join({self.texts(depth - 1)})"
        if kind < 16:
            f = self.pick("trim", "upper", "lower", "title", "capitalize", "string", "escape", "e", "safe", "forceescape", "urlencode",
                          "trim('ab ')", "center(9)", "indent", "indent(2)", "indent(2, true)", "indent(width='> ', first=true, blank=true)",
                          "truncate(5)", "truncate(6, true)", "truncate(5, false, '..', 0)", "replace('a', 'bb')", "replace('a', 'bb', 1)",
                          "default('dd')", "d('dd', true)", "reverse", "format", "first", "last")
            return f"({self.pick(sub(), self.any(depth - 1), sub())}|{f})"
        if kind == 16:
            return f"({self.any(depth - 1)}|tojson{self.pick('', '', '', '(indent=2)', '(indent=4)', '(ensure_ascii=true)', '(sort_keys=true)', '(separators=(%s, %s))' % (self.word(), self.word()), '(false)', '(indent=%s)' % self.word())})"
        if kind == 17:
            return f"({self.any(depth - 1)}|string)"
        if kind == 18:
            return f"({self.list(depth - 1)}|join{self.pick('', '(%s)' % self.word(), '(%s)' % self.word())})"
        if kind == 19:
            return f"({sub()} if {self.bool(depth - 1)} else {sub()})"
        if kind == 20:
            spec = self.pick("%s", "%d", "%5.2f", "%r", "%x", "%-6s|", "%+d", "%05d", "%e", "%g", "%%%s", "%s-%s", "%(a)s", "%.2s", "%i", "%G", "%#x", "% d", "%*d", "%c")
            values = self.pick(self.any(depth - 1), self.int(depth - 1), self.float(depth - 1), f"({self.any(depth - 1)}, {self.int(depth - 1)})", f"({self.int(depth - 1)},)", "{'a': 1}")
            return f"({self.quoted(spec)} {self.pick('%', '%')} {values})"
        if kind == 21:
            spec = self.pick("{}", "{0}-{0}", "{:>8}", "{:<6}|", "{:^7}", "{:05d}", "{:.2f}", "{:,}", "{!r}", "{a}", "{a.b}", "{0[0]}", "{:*^9}", "{:x}", "{:e}", "{:g}", "{:%}", "{:+}", "{{}}{}",
                             "{:{}}", "{:_}", "{:#x}", "{:b}", "{0.a}", "{:.3}", "{:10.3f}", "{:010,}", "{:n}", "{:=+6}", "{:s}", "{!s:>5}", "{:é<4}")
            return f"{self.quoted(spec)}.format({self.any(depth - 1)}, {self.int(depth - 1)}{self.pick('', ', a=' + self.any(depth - 1))})"
        if kind == 22:
            return f"({self.quoted(self.pick('%s', '%s %s', '%d'))}|format({self.any(depth - 1)}{self.pick('', ', 1')}))"
        if kind == 23:
            return f"{self.atom(sub())}.{self.pick('center', 'ljust', 'rjust')}({self.pick('6', '9', '2')}{self.pick('', ', ' + self.quoted('*'))})"
        if kind == 24:
            return f"{self.atom(sub())}.zfill({self.pick('4', '7')})"
        if kind == 25:
            return f"({self.quoted(self.rng.choice(WORDS))} * {self.small()})"
        if kind == 26:
            return f"messages[{self.small()}]{self.pick('.role', '.content', chr(91) + repr('content') + chr(93), '.get(' + repr('content') + ')')}"
        if kind == 27:
            return f"{self.dict(depth - 1)}.get({self.quoted(self.rng.choice(KEYS))}, {sub()})"
        if kind == 28 and self.macros:
            return self.macro_call(depth)
        if kind == 29 and self.loops:
            return f"loop.cycle({sub()}, {sub()})"
        if kind == 30:
            return f"{self.atom(sub())}.expandtabs({self.pick('', '4')})"
        if kind == 31:
            return f"strftime_now({self.quoted(self.pick('%d %B %Y', '%Y-%m-%d', '%H:%M:%S', '%b %d %a %A %j', ''))})"
        if kind == 32:
            return f"({self.list(depth - 1)}|{self.pick('min', 'max', 'first', 'last')})"
        return f"{self.atom(sub())}.{self.pick('partition', 'rpartition')}({self.word()})[{self.pick('0', '2')}]"

    def atom(self, expr):
        return expr if expr.replace("_", "a").isalnum() or expr[0] in "('\"[{" else f"({expr})"

    def variable(self, expr):
        """Never a constant: jinja2 folds those, and then a slice of what has none is undefined, not an error."""
        return f"({expr} if b is boolean else s)"

    def slice(self):
        part = lambda: self.pick("", "", "0", "1", "2", "-1", "-2", "5", "n", "none")
        return self.pick(f"{part()}:{part()}", f"{part()}:{part()}", f"{part()}:{part()}:{self.pick('1', '2', '-1', '-2', '', 'none')}", self.small())

    def int(self, depth):
        if depth <= 0:
            return self.pick(str(self.rng.choice(INTS)), self.small(), "n", "m")
        sub = lambda: self.int(depth - 1)
        kind = self.rng.randrange(16)
        if kind < 3:
            return self.pick(str(self.rng.choice(INTS)), "n", "m", "0x1f", "0b101", "0o17", "1_000")
        if kind < 5:
            return f"({sub()} {self.pick('+', '-', '*', '//', '%')} {sub()})"
        if kind == 5:
            return f"({self.any(depth - 1)}|length)"
        if kind == 6:
            return f"({self.any(depth - 1)}|int{self.pick('', '(7)', '(default=-1)', '(0, 16)', '(base=0)')})"
        if kind == 7:
            return f"{self.atom(self.text(depth - 1))}.{self.pick('find', 'rfind', 'count', 'index')}({self.word()}{self.pick('', ', 1', ', 1, 3', ', -3')})"
        if kind == 8:
            return f"(-{sub()})"
        if kind == 9:
            return f"({self.list(depth - 1)}|{self.pick('sum', 'length', 'count', 'min', 'max', 'first', 'last')})"
        if kind == 10 and self.loops:
            return f"loop.{self.pick('index', 'index0', 'revindex', 'revindex0', 'length', 'depth', 'depth0')}"
        if kind == 11:
            return f"({sub()}|abs)"
        if kind == 12:
            return f"({self.pick('2', '3', sub())} ** {self.pick('0', '2', '3')})"
        if kind == 13:
            return f"({self.text(depth - 1)}|wordcount)"
        if kind == 14:
            return f"({self.text(depth - 1)}|count)"
        return f"({sub()} if {self.bool(depth - 1)} else {sub()})"

    def float(self, depth):
        if depth <= 0:
            return self.pick("f", repr(self.rng.choice(LITERAL_FLOATS)), "0.5")
        kind = self.rng.randrange(7)
        if kind == 0:
            return f"({self.number(depth - 1)} / {self.number(depth - 1)})"
        if kind == 1:
            return f"({self.any(depth - 1)}|float{self.pick('', '(1.5)', '(default=none)')})"
        if kind == 2:
            return f"({self.number(depth - 1)}|round{self.pick('', '(1)', '(2)', '(-1)', '(1, %s)' % repr('floor'), '(1, %s)' % repr('ceil'))})"
        if kind == 3:
            return f"({self.float(depth - 1)} {self.pick('+', '-', '*', '//', '%')} {self.number(depth - 1)})"
        return self.pick("f", "0.5", "1e3", "2.50")

    def number(self, depth):
        return self.pick(self.int, self.int, self.float)(depth)

    def texts(self, depth):
        return self.pick("k", f"[{self.text(depth - 1)}, {self.text(depth - 1)}]", f"{self.atom(self.text(depth - 1))}.split({self.pick('', self.word())})",
                         f"{self.atom(self.text(depth - 1))}.splitlines({self.pick('', 'true')})", f"({self.text(depth - 1)}|list)", f"(k|map({self.quoted(self.pick('upper', 'trim', 'lower', 'length', 'string'))}))", f"(k|sort)")

    def attribute(self):
        return self.quoted(self.pick("a", "b", "c", "role", "content", "a.b", "0", "role,content", "b,a"))

    def list(self, depth):
        if depth <= 0:
            return self.pick("l", "k", "w", "messages", "[]", "[1, 2, 3]", "['b', 'A', 'c']", "(1, 'a')")
        sub = lambda: self.list(depth - 1)
        kind = self.rng.randrange(24)
        if kind < 3:
            return self.pick("l", "k", "w", "messages")
        if kind < 5:
            return "[" + ", ".join(self.any(depth - 1) for _ in range(self.rng.randrange(4))) + "]"
        if kind == 5:
            return f"{self.variable(sub())}[{self.slice()}]"
        if kind == 6:
            return f"({sub()} + {sub()})"
        if kind == 7:
            return self.texts(depth)
        if kind == 8:
            return f"range({self.pick('3', '1, 4', '5, 0, -2', '0', 'n', '2, 2')})"
        if kind == 9:
            return f"({sub()}|sort{self.pick('', '(reverse=true)', '(case_sensitive=true)', '(attribute=%s)' % self.attribute(), '(false, true)')})"
        if kind == 10:
            return f"({sub()}|map(attribute={self.attribute()}{self.pick('', ', default=0', ', default=%s' % self.text(0))})|list)"
        if kind == 11:
            f = self.pick("'upper'", "'string'", "'tojson'", "'length'", "'default', 'x'", "'int'", "'trim'", "'replace', 'a', 'b'", "'title'", "'join', '-'", "'first'", "'abs'", "'nosuch'")
            return f"({sub()}|map({f})|list)"
        if kind == 12:
            test = self.pick("", "'string'", "'defined'", "'odd'", "'eq', 1", "'equalto', 'a'", "'in', [1, 'a', none]", "'number'", "'gt', 1", "'none'", "'mapping'", "'sequence'", "'divisibleby', 2", "'lower'")
            return f"({sub()}|{self.pick('select', 'reject')}({test})|list)"
        if kind == 13:
            test = self.pick("", ", 'eq', 1", ", 'defined'", ", 'string'", ", 'in', ['user', 'tool']", ", 'equalto', 'user'", ", 'none'", ", 'ne', ''")
            return f"({sub()}|{self.pick('selectattr', 'rejectattr')}({self.attribute()}{test})|list)"
        if kind == 14:
            return f"({sub()}|{self.pick('unique', 'reverse', 'list', 'unique(true)')}|list)"
        if kind == 15:
            return f"({sub()}|batch({self.pick('2', '3', '2, 0', '3, none', '0')})|list)"
        if kind == 16:
            return f"({sub()}|slice({self.pick('2', '3', '3, 0', '1')})|list)"
        if kind == 17:
            return f"({self.dict(depth - 1)}|{self.pick('items', 'dictsort', 'dictsort(true)', 'dictsort(by=%s)' % repr('value'), 'dictsort(reverse=true)')}|list)"
        if kind == 18:
            return f"({self.atom(self.dict(depth - 1))}.{self.pick('items', 'keys', 'values')}()|list)"
        if kind == 19:
            return f"({sub()}|groupby({self.attribute()}{self.pick('', ', default=0', ', case_sensitive=true')})|list)"
        if kind == 20:
            return "(" + ", ".join(self.any(depth - 1) for _ in range(self.rng.randrange(1, 4))) + ",)"
        if kind == 21:
            return f"({sub()} * {self.pick('2', '0', '1')})"
        if kind == 22:
            # A generator.
            return f"({self.pick('l', 'k', 'w', 'messages')}|{self.pick('select', 'map(%s)' % repr('string'), 'unique', 'reverse', 'items', 'batch(2)')})"
        return self.atom(self.dict(depth - 1)) + f".{self.pick('items', 'keys', 'values')}()"

    def dict(self, depth):
        if depth <= 0:
            return self.pick("d", "messages[0]", "{}", "{'a': 1, 'b': 'x'}", "w[0]")
        kind = self.rng.randrange(8)
        if kind < 3:
            return self.pick("d", "messages[0]", "messages[-1]")
        if kind < 6:
            key = lambda: self.pick(self.quoted(self.rng.choice(KEYS)), self.quoted(self.rng.choice(KEYS)), self.small(), "1.0", "true", "none", "(1, 2)", "n")
            return "{" + ", ".join(f"{key()}: {self.any(depth - 1)}" for _ in range(self.rng.randrange(4))) + "}"
        if kind == 6:
            return f"dict({self.pick('', 'd, ', '[(1, 2)], ', '')}a={self.any(depth - 1)})"
        return f"{self.list(depth - 1)}[0]"

    def bool(self, depth):
        if depth <= 0:
            return self.pick("true", "false", "b", "not b", "messages", "z is none", "add_generation_prompt", "s")
        sub = lambda: self.bool(depth - 1)
        kind = self.rng.randrange(14)
        if kind < 2:
            return f"({self.any(depth - 1)} {self.pick('==', '!=')} {self.any(depth - 1)})"
        if kind == 2:
            return f"({self.number(depth - 1)} {self.pick('<', '>', '<=', '>=')} {self.number(depth - 1)})"
        if kind == 3:
            return f"({self.text(depth - 1)} {self.pick('in', 'not in', '<', '==')} {self.pick(self.text, self.list, self.dict)(depth - 1)})"
        if kind == 4:
            return f"({sub()} {self.pick('and', 'or')} {sub()})"
        if kind == 5:
            return f"(not {sub()})"
        if kind < 8:
            test = self.pick("defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "callable", "escaped",
                             "lower", "upper", "odd", "even", "divisibleby 3", "divisibleby(2)", "equalto 1", "eq('a')", "ne none", "sameas true", "sameas none", "in ['a', 1]", "in 'abc'", "gt 1", "filter", "test")
            return f"({self.any(depth - 1)} is {self.pick('', '', 'not ')}{test})"
        if kind == 8:
            return f"{self.atom(self.text(depth - 1))}.{self.pick('startswith', 'endswith')}({self.pick(self.word(), '(%s, %s)' % (self.word(), self.word()), self.word() + ', 1')})"
        if kind == 9:
            return f"{self.atom(self.text(depth - 1))}.is{self.pick('alpha', 'digit', 'alnum', 'space', 'upper', 'lower', 'title', 'numeric', 'decimal', 'identifier', 'printable', 'ascii')}()"
        if kind == 10 and self.loops:
            return self.pick("loop.first", "loop.last", f"loop.changed({self.any(depth - 1)})", "loop.previtem is defined", "loop.nextitem is defined", "loop.previtem == loop.nextitem")
        if kind == 11:
            return f"({self.small()} < {self.int(depth - 1)} < {self.int(depth - 1)})"
        if kind == 12:
            return f"({self.quoted(self.rng.choice(KEYS))} {self.pick('in', 'not in')} {self.dict(depth - 1)})"
        return f"({self.any(depth - 1)}|default(false))"

    def any(self, depth):
        kind = self.rng.randrange(20)
        if kind < 6:
            return self.text(depth)
        if kind < 8:
            return self.int(depth)
        if kind == 8:
            return self.float(depth)
        if kind < 11:
            return self.list(depth)
        if kind < 13:
            return self.dict(depth)
        if kind == 13:
            return self.bool(depth)
        if kind == 14:
            return self.rng.choice(NAMES)
        if kind == 15:
            return f"{self.rng.choice(NAMES)}.{self.pick('a', 'b', 'role', 'content', 'x', 'items', '__class__', '__class__.__mro__', '_p')}"
        if kind == 16:
            return f"{self.rng.choice(NAMES)}[{self.pick(self.small(), self.quoted(self.rng.choice(KEYS)))}]"
        if kind == 17:
            return self.pick("none", "true", "false", "1.5", "e", "z", "tools")
        if kind == 18 and depth > 0:
            return f"({self.any(depth - 1)} if {self.bool(depth - 1)}{self.pick('', ' else ' + self.any(depth - 1))})"
        if kind == 19 and depth > 0:
            return f"({self.any(depth - 1)} {self.pick('or', 'and')} {self.any(depth - 1)})"
        return self.pick("ns.x", "ns.y", "x", "y", "i")

    # ---- Statements

    def tag(self, inside):
        left = self.pick("", "", "", "-", "-", "+")
        right = self.pick("", "", "", "-", "-", "+")
        return f"{{%{left} {inside} {right}%}}"

    def print(self, expr):
        return f"{{{{{self.pick('', '', '-', '+')} {expr} {self.pick('', '', '-')}}}}}"

    def data(self):
        return self.pick("", " ", "\n", "text", "\n  ", "  \n", "a\n\nb", "<|x|>", "é ", "{ }", "}}", "# ", "\t", "\n\t text\n", "%}", "\r\n")

    def body(self, depth):
        return "".join(self.data() + self.statement(depth) for _ in range(self.rng.randrange(1, 4))) + self.data()

    def macro_call(self, depth):
        name, count = self.rng.choice(self.macros)
        arguments = [self.any(depth - 1) for _ in range(self.rng.randrange(count + 1) if self.chance(0.9) else count + 1)]
        if self.chance(0.3):
            arguments.append(f"{self.pick('p0', 'p1', 'q')}={self.any(depth - 1)}")
        if self.chance(0.05):
            arguments.append(self.pick("*k", "**d"))
        return f"{name}({', '.join(arguments)})"

    def statement(self, depth):
        kind = self.rng.randrange(26)
        if depth <= 0 or kind < 8:
            return self.print(self.any(max(depth, 1)))
        if kind < 11:
            out = self.tag(f"if {self.bool(2)}") + self.body(depth - 1)
            if self.chance(0.3):
                out += self.tag(f"elif {self.bool(2)}") + self.body(depth - 1)
            if self.chance(0.4):
                out += self.tag("else") + self.body(depth - 1)
            return out + self.tag("endif")
        if kind < 15:
            return self.loop(depth)
        if kind < 18:
            target = self.pick("x", "y", "i", "x, y", "ns.x", "ns.y", "s", "n", "l", "x, ns.x")
            if "ns" in target and not self.spaces:
                target = "x"
            value = f"{self.any(1)}, {self.any(1)}" if "," in target else self.any(2)
            if self.chance(0.2):
                return self.tag(f"set {target.split(',')[0]}{self.pick('', ' | upper', ' | trim | length')}") + self.body(depth - 1) + self.tag("endset")
            return self.tag(f"set {target} = {value}")
        if kind == 18:
            self.spaces = True
            return self.tag(f"set ns = namespace({self.pick('x=0', 'x=' + self.any(1) + ', y=none', 'd', '')})")
        if kind == 19:
            return self.macro(depth)
        if kind == 20 and self.macros:
            name, _ = self.rng.choice(self.macros)
            return self.tag(f"call{self.pick('', '(x)', '(x, y=1)')} {name}({self.any(1)})") + self.body(depth - 1) + self.tag("endcall")
        if kind == 21:
            return self.tag(f"filter {self.pick('upper', 'trim', 'indent(2)', 'replace(%s, %s) | title' % (self.word(), self.word()), 'length')}") + self.body(depth - 1) + self.tag("endfilter")
        if kind == 22:
            return self.pick(self.tag("raw") + "{{ x }} {% if %}\n" + self.tag("endraw"), "{#" + self.pick("", "-", "+") + " note {{ }} " + self.pick("", "-", "+") + "#}" + self.pick("", "\n", "\n\n "))
        if kind == 23:
            return self.tag(f"with x = {self.any(1)}, y = {self.any(1)}") + self.body(depth - 1) + self.tag("endwith")
        if kind == 24:
            loops, self.loops = self.loops, self.loops
            out = self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
            self.loops = loops
            return out
        if self.loops:
            return self.tag(f"if {self.bool(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif")
        return self.print(self.any(2))

    def loop(self, depth):
        kind = self.rng.randrange(6)
        if kind < 3:
            target, items = self.pick("x", "y", "i", "message"), self.list(2)
        elif kind == 3:
            target, items = "x, y", self.pick(f"{self.atom(self.dict(1))}.items()", f"{self.dict(1)}|items", f"{self.dict(1)}|dictsort", "[(1, 2), ['a', 'b']]", self.list(1))
        elif kind == 4:
            target, items = "x", self.pick("messages", "messages[1:]", "messages[::-1]", "range(4)", "messages if messages", "k|reverse")
        else:
            target, items = "x", self.any(2)
        test = f" if {self.bool(2)}" if self.chance(0.25) else ""
        if " if " in items and test:
            items = f"({items})"
        recursive = " recursive" if self.chance(0.1) else ""
        self.loops += 1
        body = self.body(depth - 1)
        if recursive and self.chance(0.7):
            body += self.tag(f"if {target.split(',')[0]} is mapping and loop.depth < 4") + self.print(f"loop({self.pick(target.split(',')[0] + '.values()', '[1, 2]', 'k')})") + self.tag("endif")
        self.loops -= 1
        otherwise = self.tag("else") + self.body(depth - 1) if self.chance(0.2) else ""
        return self.tag(f"for {target} in {items}{test}{recursive}") + body + otherwise + self.tag("endfor")

    def macro(self, depth):
        name = f"m{len(self.macros)}"
        count = self.rng.randrange(3)
        parameters = [f"p{i}" for i in range(count)]
        if parameters and self.chance(0.4):
            parameters[-1] += f"={self.any(1)}"
        loops, self.loops = self.loops, 0
        extra = self.pick("", "", "", "{{ caller() }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller(1) if caller else 'none' }}")
        use = "".join(self.print(self.pick(f"p{i}", f"p{i}|string", f"p{i} is defined")) for i in range(count))
        body = use + extra + self.body(depth - 1)
        self.loops = loops
        self.macros.append((name, count))
        return self.tag(f"macro {name}({', '.join(parameters)})") + body + self.tag("endmacro")


def cases(seed, count):
    """(template, input) pairs; the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(count):
        maker = Maker(rng)
        given = {"messages": [maker.message() for _ in range(rng.randrange(1, 4))], "variables": maker.variables()}
        if maker.chance(0.2):
            given["tools"] = [{"type": "function", "function": {"name": "f", "parameters": maker.value()}}]
        given["add_generation_prompt"] = maker.chance(0.5)
        yield maker.body(rng.randrange(1, 4)), given
