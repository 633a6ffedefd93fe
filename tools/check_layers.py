#!/usr/bin/env python3
"""Checks the files of src/ against the rules in layers.txt (which explains its own syntax).

    check_layers.py SRC RULES

Prints one line a violation, with file and line, and exits 1 when there is one. Always checked: a file begins with a
comment that orients the reader, a header with `#pragma once` after it; project includes are written "room/file.h" and
exist; no room includes a room it does not list, and enters others by their door.
"""

import re
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

SOURCES = {".h", ".cc", ".cu"}
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
# Comments, strings and characters: what is left is code. A single quote after a digit separates digits.
NOT_CODE = re.compile(
    r"""
      //[^\n]* | /\*.*?\*/
    | R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass
class Rules:
    rooms: dict = field(default_factory=dict)  # room -> rooms it may include
    files: dict = field(default_factory=dict)  # file outside the rooms -> rooms it may include
    open_rooms: set = field(default_factory=set)
    only: list = field(default_factory=list)  # (file patterns, header patterns), as are confine and never
    confine: list = field(default_factory=list)
    never: list = field(default_factory=list)
    words: list = field(default_factory=list)  # (name, regex, file patterns)
    max_lines: int | None = None
    problems: list = field(default_factory=list)


def read_rules(text):
    rules = Rules()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        # The last colon followed by a space or the end: a regex may hold others.
        head, colon, tail = re.fullmatch(r"(.*?)(?:(:)(?:\s+([^:]*))?)?", line.strip()).groups()
        kind, _, rest = head.partition(" ")
        names = (tail or "").split()
        if kind == "open":
            rules.open_rooms.add(rest)
        elif kind == "lines":
            rules.max_lines = int(rest)
        elif not colon:
            rules.problems.append(f"layers.txt:{number}: cannot understand {line!r}")
        elif kind == "file":
            rules.files[rest] = set(names)
        elif kind == "only":
            rules.only.append((rest.split(), names))
        elif kind == "confine":
            rules.confine.append((names, rest.split()))
        elif kind == "never":
            rules.never.append((rest.split(), names))
        elif kind == "word":
            name, _, regex = rest.partition(" = ")
            rules.words.append((name, re.compile(regex, re.MULTILINE), names))
        elif rest:
            rules.problems.append(f"layers.txt:{number}: unknown rule {kind!r}")
        else:
            for missing in sorted(set(names) - rules.rooms.keys()):
                rules.problems.append(f"layers.txt:{number}: {kind} lists {missing}, which is not declared above it")
            rules.rooms[kind] = set(names)
    return rules


def matches(name, patterns):
    return any(fnmatch(name, pattern) for pattern in patterns)


def code_of(text):
    """The text with comments and literals blanked, lines kept."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def check_shape(name, text, rules):
    lines = text.splitlines()
    if not lines or not re.match(r"//\s*\S", lines[0]):
        yield 1, "the file must begin with a // comment that orients the reader"
    if name.endswith(".h") and "#pragma once" not in text and not name.endswith("-inl.h"):
        yield 1, "a header needs #pragma once"
    if rules.max_lines and len(lines) > rules.max_lines:
        yield len(lines), f"{len(lines)} lines, at most {rules.max_lines}: it probably holds two rooms"
    code = code_of(text)
    for word, regex, allowed in rules.words:
        if not matches(name, allowed):
            for found in regex.finditer(code):
                line = code.count("\n", 0, found.start()) + 1
                yield line, f"{word} {found.group().strip()!r} only in {' '.join(allowed)}"


def check_include(src, name, header, quoted, rules):
    for files, headers in rules.never:
        if matches(name, files) and matches(header, headers):
            yield f"{header} may not be included in {' '.join(files)}"
    for allowed, headers in rules.confine:
        if matches(header, headers) and not matches(name, allowed):
            yield f"{header} is confined to {' '.join(allowed)}"
    if not quoted:
        return
    target = header.split("/")[0]
    if "/" not in header or ".." in header:
        yield f'"{header}" must be written "room/file.h"'
        return
    if target not in rules.rooms:
        yield f'"{header}": no room {target}; libraries are included with <>'
        return
    if not (src / header).is_file():
        yield f'"{header}" does not exist'
    room = name.split("/")[0]
    may = rules.files.get(name, rules.rooms.get(room, set()))
    if target != room:
        if target not in may:
            yield f"{room} may not include {target}"
        elif target not in rules.open_rooms and header != f"{target}/{target}.h":
            yield f"enter {target} by its door {target}/{target}.h, not {header}"
    for files, headers in rules.only:
        if matches(name, files) and not matches(header, headers):
            yield f"{' '.join(files)} may include only {' '.join(headers)}"


def check(src, rules):
    """Lines that say what is wrong; also how many files were read."""
    problems = list(rules.problems)
    paths = sorted(p for p in src.rglob("*") if p.suffix in SOURCES)
    for path in paths:
        name = path.relative_to(src).as_posix()
        if name not in rules.files and name.split("/")[0] not in rules.rooms:
            problems.append(f"{name}: no room of layers.txt and no file it lists")
            continue
        text = path.read_text(encoding="utf-8")
        problems += [f"{name}:{line}: {what}" for line, what in check_shape(name, text, rules)]
        for number, line in enumerate(text.splitlines(), 1):
            include = INCLUDE.match(line)
            if include:
                found = check_include(src, name, include.group(2), include.group(1) == '"', rules)
                problems += [f"{name}:{number}: {what}" for what in found]
    return problems, len(paths)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: check_layers.py SRC RULES")
    rules = read_rules(Path(sys.argv[2]).read_text(encoding="utf-8"))
    problems, files = check(Path(sys.argv[1]), rules)
    if not files:
        problems.append(f"{sys.argv[1]} holds no sources")
    print("\n".join(problems) or f"layers: {files} files in {len(rules.rooms)} rooms keep the rules")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
