#!/usr/bin/env python3
"""Each rule of check_layers.py, broken on purpose in a tree of one or two files."""

import tempfile
import unittest
from pathlib import Path

import check_layers

RULES = r"""
base:
tensor: base
plan: base tensor
cli: base plan
file main.cc: cli
open base
only plan/families/*: plan/plan.h
confine thread hwy/*: base/*
never plan/*: fstream
word print = \bstd::cout\b: cli/*
lines 5
"""
TREE = {
    "base/error.h": "// Errors.\n#pragma once\n",
    "tensor/tensor.h": '// Door.\n#pragma once\n#include "base/error.h"\n',
    "tensor/tree.h": "// Inside.\n#pragma once\n",
    "plan/plan.h": '// Door.\n#pragma once\n#include "tensor/tensor.h"\n',
    "cli/cli.h": "// Door.\n#pragma once\n",
    "main.cc": '// Main.\n#include "cli/cli.h"\n',
}


def problems(changes, rules=RULES):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (TREE | changes).items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layers.check(Path(folder), check_layers.read_rules(rules))[0]


class CheckLayers(unittest.TestCase):
    def test_accepts_what_keeps_the_rules(self):
        self.assertEqual(problems({}), [])
        self.assertEqual(problems({"base/a.cc": "// A.\n#include <thread>\n"}), [])
        self.assertEqual(problems({"tensor/a.cc": '// A.\n#include "tensor/tree.h"\n'}), [])
        self.assertEqual(problems({"plan/a.cc": '// std::cout\nconst char* a = "std::cout";\nint b = 1\'000;\n'}), [])

    def test_names_what_breaks_them(self):
        for name, text, expected in [
            ("tensor/a.cc", '// A.\n#include "plan/plan.h"\n', "tensor/a.cc:2: tensor may not include plan"),
            ("plan/a.cc", '// A.\n#include "tensor/tree.h"\n', "enter tensor by its door"),
            ("plan/a.cc", '// A.\n#include "tensor.h"\n', "must be written"),
            ("plan/a.cc", '// A.\n#include "base/none.h"\n', "does not exist"),
            ("plan/a.cc", '// A.\n#include "fmt/format.h"\n', "no room fmt"),
            ("plan/families/a.cc", '// A.\n#include "base/error.h"\n', "may include only plan/plan.h"),
            ("tensor/a.cc", "// A.\n#include <thread>\n", "thread is confined to base/*"),
            ("tensor/a.cc", '// A.\n#include "hwy/highway.h"\n', "hwy/highway.h is confined"),
            ("plan/a.cc", "// A.\n#include <fstream>\n", "fstream may not be included"),
            ("tensor/a.cc", "// A.\n\nauto& o = std::cout;\n", "tensor/a.cc:3: print 'std::cout' only in cli/*"),
            ("tensor/a.cc", "#include <vector>\n", "must begin with a // comment"),
            ("tensor/a.h", "// A.\n", "needs #pragma once"),
            ("tensor/a.cc", "// A.\n" * 6, "6 lines, at most 5"),
            ("attic/a.cc", "// A.\n", "no room of layers.txt"),
            ("other.cc", "// A.\n", "no room of layers.txt"),
            ("main.cc", '// A.\n#include "tensor/tensor.h"\n', "may not include tensor"),
        ]:
            with self.subTest(name=name, expected=expected):
                found = problems({name: text})
                self.assertEqual(len([line for line in found if expected in line]), 1, found)

    def test_rules_without_cycles_and_riddles(self):
        self.assertIn("tensor lists plan", problems({}, RULES.replace("tensor: base", "tensor: base plan"))[0])
        self.assertIn("unknown rule 'confin'", problems({}, RULES.replace("confine", "confin"))[0])
        self.assertIn("cannot understand", problems({}, RULES + "nonsense\n")[0])


if __name__ == "__main__":
    unittest.main(argv=["check_layers_test", "--quiet"])
