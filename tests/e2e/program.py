"""What the end-to-end tests share: the program under test, run as its users run it, and models for it.

A test is run as `FILE_test.py LOCKSTEP FIXTURES VERSION`, where LOCKSTEP is a test build (it reads LOCKSTEP_TEST_*).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from byte_vocabulary import with_byte_vocabulary

if len(sys.argv) < 4:
    sys.exit(__doc__)
BINARY, FIXTURES, VERSION = sys.argv[1], Path(sys.argv[2]), sys.argv[3]


def lockstep(*arguments, stdin=b"", **environment):
    """Runs the program. stdout stays bytes; stderr is text."""
    command = [BINARY, *map(str, arguments)]
    env = {key: value for key, value in os.environ.items() if not key.startswith("LOCKSTEP_TEST_")} | environment
    done = subprocess.run(command, input=stdin, capture_output=True, env=env)
    done.stderr = done.stderr.decode()
    return done


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.ids_only = FIXTURES / "tiny" / "gqa.gguf"  # context 256, vocabulary 257, 2 layers, 14 heads, tied head
        cls.model = cls.folder / "bytes.gguf"
        cls.model.write_bytes(with_byte_vocabulary(cls.ids_only.read_bytes()))

    def succeed(self, *arguments, **kwargs):
        done = lockstep(*arguments, **kwargs)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done

    def json_of(self, *arguments, **kwargs):
        done = self.succeed(*arguments, "--json", "--quiet", **kwargs)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def refuse(self, status, words, *arguments, **kwargs):
        """The status, and one line on standard error that begins as promised and has each of the words. Before it, the log
        may have said where the ranks run."""
        done = lockstep(*arguments, **kwargs)
        done.stderr = re.sub(r"^\[.*\[info\] .*\n", "", done.stderr)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stderr}")
        self.assertEqual(done.stdout, b"", arguments)
        self.assertTrue(done.stderr.startswith("lockstep: ") and done.stderr.endswith("\n"), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr, arguments)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
