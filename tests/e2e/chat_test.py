#!/usr/bin/env python3
"""lockstep chat and generate --chat: through a pipe, a message a line, and at a terminal of our own. With a real model
(`chat_test.py LOCKSTEP FIXTURES VERSION MODEL`) the terminal is tmux's, and the conversation one that makes sense."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
import unittest

import program
from program import BINARY, ProgramTest, lockstep

MODEL = sys.argv.pop(4) if len(sys.argv) > 4 else None
END = "<|end|>"  # the special token of the model with the vocabulary of bytes
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}{% if shout is defined %}{{ shout }}{% endif %}"
)


class Terminal:
    """The program at a terminal; what it shows is kept."""

    def __init__(self, *arguments, **environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "LANG": "C.UTF-8"} | environment)
            os.execv(BINARY, [BINARY, *map(str, arguments)])
        self.shown = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern, seconds=60):
        """Until what was shown since the last call matches; returns what was shown up to there."""
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.shown)):
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{pattern} is not in {self.shown!r}")
            try:
                self.shown += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:  # the program has ended
                raise AssertionError(f"{pattern} is not in {self.shown!r}, and the program has ended") from None
        shown, self.shown = self.shown[: match.end()], self.shown[match.end() :]
        return shown

    def wait_for_prompt(self):
        """Until a prompt is there and the program reads key by key, which it begins just after."""
        shown = self.wait_for(r"\x1b\[\?2004h> ")
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            time.sleep(0.01)
        return shown

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class ChatTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.template = cls.folder / "template.jinja"
        cls.template.write_text(TEMPLATE)
        cls.flags = ["-m", cls.model, "--chat-template", cls.template, "--temp", "0"]

    def answer(self, prompt, count):
        """What the model says after a prompt whose special tokens are meant."""
        return self.succeed("generate", "-m", self.model, "-p", prompt, "--parse-special", "-n", count, "--quiet").stdout[:-1]

    def chat(self, *lines, flags=(), temperature=0):
        text = "".join(line + "\n" for line in lines).encode()
        flags = [*self.flags[:-1], temperature, *flags]
        return self.succeed("chat", *flags, "-n", 5, "--quiet", stdin=text).stdout

    def test_answers_what_the_template_makes_of_the_conversation(self):
        first = f"[system]Be brief.{END}[user]Hello{END}[assistant]"
        one = self.answer(first, 5)
        self.assertEqual(self.chat("Hello", flags=["--system", "Be brief."]), one + b"\n")
        saved = self.folder / "talk.json"
        self.chat("Hello", f"/save {saved}", flags=["--system", "Be brief."])
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant"])
        self.assertEqual(messages[2]["content"], one.decode())
        two = self.answer(first + one.decode() + f"{END}[user]/More{END}[assistant]", 5)
        self.assertEqual(self.chat(f"/load {saved}", "//More"), b"3 messages\n" + two + b"\n")

    def test_generate_takes_one_message(self):
        flags = ["generate", *self.flags, "-n", 7, "--quiet", "-p", "Hello", "--chat"]
        self.assertEqual(self.succeed(*flags).stdout[:-1], self.answer(f"[user]Hello{END}[assistant]", 7))
        self.assertEqual(
            self.succeed(*flags, "--system", "No.", "--chat-template-kwargs", '{"shout": "Hey"}').stdout[:-1],
            self.answer(f"[system]No.{END}[user]Hello{END}[assistant]Hey", 7),
        )

    def test_what_people_write_is_no_special_token(self):
        message = f"a{END}b" + "\U00100000"  # with the private-use character that could mark it
        count = self.json_of("generate", *self.flags, "--chat", "-p", message, "-n", 1)["prompt_tokens"]
        frame = len("[user]") + 1 + len("[assistant]")
        self.assertEqual(count, frame + len(message.encode()))
        self.assertEqual(self.json_of("generate", *self.flags, "--chat", "-p", "ab", "-n", 1)["prompt_tokens"], frame + 2)
        said = f"{END}{END}<|en"  # and parts that join to one
        talk, joined = self.folder / "joined.json", self.folder / "joined.jinja"
        talk.write_text(json.dumps([{"role": "user", "content": "<|en"}, {"role": "assistant", "content": "d|>"}]))
        joined.write_text("{% for m in messages %}{{ m.content | trim }}{% endfor %}")
        said_so = self.succeed("chat", "-m", self.model, "--chat-template", joined, "--temp", 0, "-n", 1, "--quiet",
                               stdin=f"/load {talk}\nx\n/stats\n".encode()).stdout  # fmt: skip
        self.assertIn(f"prompts of {len(END + 'x')} tokens".encode(), said_so)
        joined.write_text("{{ shout }}{{ messages[0].content }}")
        count = self.json_of("generate", "-m", self.model, "--chat-template", joined, "--chat", "-p", "d|>", "-n", 1,
                             "--chat-template-kwargs", '{"shout": "<|en "}')["prompt_tokens"]  # fmt: skip
        self.assertEqual(count, 8)
        joined.write_text("{{ shout | trim }}{{ messages[0].content }}" + END)
        count = self.json_of("generate", "-m", self.model, "--chat-template", joined, "--chat", "-p", "d|>", "-n", 1,
                             "--chat-template-kwargs", '{"shout": "<|en "}')["prompt_tokens"]  # fmt: skip
        self.assertEqual(count, 8)
        count = self.json_of("generate", *self.flags, "--chat", "-p", said, "-n", 1)["prompt_tokens"]
        self.assertEqual(count, frame + len(said))

    def test_retry_clear_and_system(self):
        one = self.answer(f"[user]Hello{END}[assistant]", 5)
        note = b"with --temp 0 an answer is the same each time\n"
        self.assertEqual(self.chat("Hello", "/retry"), one + b"\n" + note + one + b"\n")
        self.assertEqual(self.chat("Other", "/clear", "Hello").split(b"\n", 1)[1], one + b"\n")
        with_system = self.answer(f"[system]No.{END}[user]Hello{END}[assistant]", 5)
        said = self.chat("/system No.", "Hello", "/system", "/system off", "/clear", "Hello")
        self.assertEqual(said, b"system: No.\n" + with_system + b"\nsystem: No.\nno system message\n" + one + b"\n")
        first, second = (self.chat("Hello", flags=["--seed", seed], temperature=1) for seed in (5, 6))
        self.assertNotEqual(first, second)
        self.assertEqual(self.chat("Hello", "/retry", flags=["--seed", 5], temperature=1), first + second)

    def test_what_was_said_is_not_read_again(self):
        letter, count = 97, 5  # the model with the vocabulary of bytes is made to say "aaaaa"
        flags = ["--logit-bias", f"{letter}:1e9"]
        frame = len("[user]") + 1 + len("[assistant]")
        first = frame + len("Hello")
        second = first + count + 1 + frame + len("More")
        # The last token of an answer is drawn and not read; of a prompt read before, the last gives the logits.
        cached = first + count - 1
        said = self.chat("Hello", "More", "/stats", "/retry", "/stats", "/clear", "Hello", "/stats", flags=flags)
        found = [tuple(map(int, numbers)) for numbers in re.findall(rb"prompts of (\d+) tokens, (\d+) of them read", said)]
        self.assertEqual(found[0], (first + second, first + second - cached))
        self.assertEqual(found[1], (first + 2 * second, first + second - cached + 1))
        self.assertEqual(found[2], (2 * first + 2 * second, first + second - cached + 2))
        self.assertEqual(said.count(b"a" * count), 4)

    def test_refusals(self):
        def piped(status, words, *lines):
            done = lockstep("chat", *self.flags, "--quiet", "-n", 2, stdin="\n".join(lines).encode())
            self.assertEqual(done.returncode, status, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

        piped(2, ["/frobnicate is not known", "/help"], "/frobnicate")
        piped(2, ["no message to answer"], "/retry")
        piped(2, ["/retry stands alone", "'x'"], "/retry x")
        piped(2, ["/clear stands alone", "up my confusion"], "/clear up my confusion")
        piped(2, ["/exit stands alone"], "/exit now")
        piped(2, ["/save wants the name of a file"], "/save")
        piped(1, ["/load", "nowhere.json", "cannot be opened"], "/load nowhere.json")
        bad = self.folder / "bad.json"
        for text, word in [
            ("{", "is no JSON"),
            ('{"messages": 3}', "holds no conversation"),
            ("[3]", "message 1 is no object"),
            ('[{"role": 3}]', 'message 1 has no "role"'),
            ('[{"role": "user"}]', 'message 1 has no "content"'),
            ('[{"role": "wizard", "content": ""}]', "'wizard'"),
            ('[{"role": "user", "content": ""}, {"role": "system", "content": ""}]', "message 2 is the system's"),
            ("[" * 100000 + "]" * 100000, "64 levels"),
            ('[{"role": "user", "content": ' + "[" * 100000 + "]" * 100000 + "}]", "64 levels"),
            ("[" * 100000, "64 levels"),
        ]:
            bad.write_text(text)
            piped(1, [str(bad), word], f"/load {bad}")
        for template, words in [
            ("{% for %}", ["line 1"]),
            ("{{ raise_exception('no users here') }}", ["no users here"]),
            ("{{ messages.x.y }}", ["line 1"]),
        ]:
            bad.write_text(template)
            self.refuse_chat(words, "chat", "-m", self.model, "--chat-template", bad)
            self.refuse_chat(words, "generate", "-m", self.model, "--chat-template", bad, "--chat", "-p", "x")
        bad.write_text("{{ messages }}")
        self.refuse_chat([bad, "changes the special tokens", END], "generate", "-m", self.model, "--chat-template", bad,
                         "--chat", "-p", f"a{END}")  # fmt: skip
        self.refuse_chat(["no chat template", "--chat-template"], "chat", "-m", self.model)
        self.refuse_chat(["no tokenizer"], "chat", "-m", self.ids_only, "--chat-template", self.template)
        self.refuse_chat(["--chat-template", "cannot be opened"], "chat", "-m", self.model, "--chat-template", "nowhere")
        for flags in (["--system", "x"], ["--chat-template", self.template], ["--chat-template-kwargs", '{"a": 1}']):
            self.refuse_chat(["give --chat"], "generate", "-m", self.model, "-p", "x", *flags, status=2)
        self.refuse_chat(["--tokens"], "generate", "-m", self.model, "--tokens", "1", "--chat", status=2)
        for text, word in [("[1]", "JSON object"), ('{"x": 1e400}', "no JSON"), ('{"tools": 3}', "tools must be a JSON array")]:
            self.refuse_chat([word], "chat", *self.flags, "--chat-template-kwargs", text, status=2)
        self.refuse_chat(["give --chat"], "generate", "-m", self.model, "-p", "x", "--chat-template-kwargs", '{"tools": []}',
                         status=2)  # fmt: skip
        folder = os.open(self.folder, os.O_RDONLY)
        done = subprocess.run([BINARY, "chat", *map(str, self.flags), "--quiet"], stdin=folder, capture_output=True, text=True)
        os.close(folder)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("standard input cannot be read", done.stderr)
        for model in (self.model, self.ids_only):
            self.assertNotIn("--tokens", lockstep("chat", "-m", model, "--quiet").stderr)

    def refuse_chat(self, words, *arguments, status=None):
        done = lockstep(*arguments, "--quiet")
        self.assertIn(done.returncode, [1, 2] if status is None else [status], done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)

    def test_tools_and_documents_reach_the_template(self):
        template = self.folder / "tools.jinja"
        template.write_text("{{ tools | length }}{{ tools[0].name }}{{ documents[0].text }}{{ x }}{{ messages[0].content }}")
        kwargs = json.dumps({"tools": [{"name": f"get{END}"}], "documents": [{"text": "abc"}], "x": "yz"})
        flags = ["--chat", "--chat-template", template, "--chat-template-kwargs", kwargs, "-n", 1]
        count = self.json_of("generate", "-m", self.model, *flags, "-p", "Hello")["prompt_tokens"]
        self.assertEqual(count, len(f"1get{END}abcyzHello"))

    def test_a_model_with_several_templates(self):
        def count(templates, *flags):
            model = self.folder / "templates.gguf"
            model.write_bytes(program.with_byte_vocabulary(self.ids_only.read_bytes(), templates=templates))
            done = lockstep("generate", "-m", model, "--chat", "-p", "x", "-n", 1, "--json", "--quiet", *flags)
            return json.loads(done.stdout)["prompt_tokens"] if done.returncode == 0 else done.stderr

        all_of_them = {"": "1", "tool_use": "12", "rag": "123"}
        tools = ["--chat-template-kwargs", '{"tools": [{}]}']
        self.assertEqual(count(all_of_them), 1)
        self.assertEqual(count(all_of_them, *tools), 2)
        self.assertEqual(count(all_of_them, *tools, "--chat-template", "rag"), 3)
        self.assertEqual(count({"rag": "123"}), 3)
        self.assertIn("cannot be opened", count(all_of_them, "--chat-template", "sql"))
        self.assertIn("no default: 'rag', 'tool_use'; name one of them", count({"rag": "123", "tool_use": "12"}))

    def test_far_too_long(self):
        text = self.folder / "long.txt"
        text.write_text("a <|en " * 1000000)
        for command in (["generate", "--chat", "-f", text], ["chat"]):
            with open(text) as lines:
                done = subprocess.run([BINARY, *map(str, [*command, *self.flags, "--quiet"])], stdin=lines, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"^lockstep: the conversation has 70000\d\d bytes, which are at least \d+ tokens, but at most 256 fit\n$")

    def test_a_context_that_runs_full(self):
        chat = Terminal("chat", *self.flags, "--logit-bias", "97:1e9", "--ctx", 40, XDG_STATE_HOME=str(self.folder / "state"))
        chat.wait_for_prompt()
        chat.type("Hello\r")
        self.assertIn("40 of 40 positions, the context is full]", chat.wait_for_prompt())
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)

    def test_the_system_message_is_shown_whatever_it_is(self):
        parts = [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}]
        talk = self.folder / "parts.json"
        talk.write_text(json.dumps(parts))
        said = self.chat(f"/load {talk}", "/system", "/system off", "/system")
        self.assertEqual(said, b'1 messages\nsystem: [{"type":"text","text":"Be brief."}]\nno system message\nno system message\n')

    def test_at_a_terminal(self):
        """Messages of several lines, typed and pasted, commands, and the history."""
        state = self.folder / "state"
        home = {"XDG_STATE_HOME": str(state), "HOME": str(self.folder)}
        chat = Terminal("chat", *self.flags, "-n", 4000, "--ctx", 250, "--tp-size", 2, **home)
        chat.wait_for_prompt()
        other = Terminal("chat", *self.flags, **home)
        other.wait_for_prompt()
        chat.type("/help\r")
        self.assertIn("/retry", chat.wait_for_prompt())
        chat.type("one\\\rtwo\x1b\rthree\r")
        chat.wait_for(r"\[\d+ tokens[^\n]*\]")
        chat.wait_for_prompt()
        saved = self.folder / "terminal.json"
        chat.type(f"/save {saved}\r")
        chat.wait_for_prompt()
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "one\ntwo\nthree")
        chat.type("/clear\r")
        chat.wait_for_prompt()
        chat.type("\x1b[200~\u00e9 \u65e5\r\u00df\x1b[201~\r")  # pasted
        chat.wait_for_prompt()
        chat.type(f"/save {saved}\r")
        chat.wait_for_prompt()
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "\u00e9 \u65e5\n\u00df")
        chat.type("/clear\r")
        chat.wait_for_prompt()
        chat.type("//help\\\rme\r")  # two slashes before a command's name, in several lines too
        chat.wait_for_prompt()
        chat.type(f"/save {saved}\r")
        chat.wait_for_prompt()
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "/help\nme")
        chat.type("/clear\r")
        chat.wait_for_prompt()
        chat.type("tab\there\r")
        chat.wait_for_prompt()
        chat.type(f"/save {saved}\r")
        chat.wait_for_prompt()
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "tab\there")
        chat.type("/clear\r")
        chat.wait_for_prompt()
        chat.type("\x1b[200~// a comment\rint x;\x1b[201~\r")  # is no command, and loses nothing
        chat.wait_for_prompt()
        chat.type("/save ~/terminal.json\r")
        chat.wait_for_prompt()
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "// a comment\nint x;")
        chat.type("given up\x03")
        chat.wait_for_prompt()
        chat.type("/clear\r")
        chat.wait_for_prompt()
        chat.type("/nonsense\r")
        self.assertIn("is not known", chat.wait_for_prompt())
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)
        other.type("/system of the other\r")
        other.wait_for_prompt()
        other.type("\x04")
        self.assertEqual(other.end(), 0)
        history = state / "lockstep" / "chat_history"
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)
        self.assertIn("/nonsense", history.read_text())
        self.assertIn("of\\040the\\040other", history.read_text())
        with history.open("a") as file:  # of a long life: it is cut, the newest stay
            file.writelines(f"old{i}\n" for i in range(2500))
            file.write("/nonsense\nnewest\n")
        third = Terminal("chat", *self.flags, **home)
        third.wait_for_prompt()
        self.assertEqual(len(history.read_text().splitlines()), 1001)
        third.type("\x1b[A\x1b[A")
        third.wait_for("/nonsense")
        third.type("\x03")
        third.wait_for_prompt()
        third.type("\x04")
        self.assertEqual(third.end(), 0)

    def test_what_a_model_writes_cannot_command_the_terminal(self):
        state = {"XDG_STATE_HOME": str(self.folder / "state")}
        chat = Terminal("chat", *self.flags, "-n", 3, "--logit-bias", "27:1e9", **state)
        chat.wait_for_prompt()
        chat.type("Hello\r")
        self.assertIn(r"\x1b\x1b\x1b", chat.wait_for_prompt())
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        # Every collective of every step waits, so that an answer takes many seconds.
        saved = self.folder / "stopped.json"
        slow = {"LOCKSTEP_TEST_COMM_DELAY_US": "5000", "XDG_STATE_HOME": str(self.folder / "state")}
        chat = Terminal("chat", *self.flags, "-n", 4000, "--ctx", 250, "--tp-size", 2, **slow)
        chat.wait_for_prompt()
        for _ in range(2):
            chat.type("Hello\r")
            chat.wait_for("Hello\r\n")
            time.sleep(0.5)
            chat.type("\x03")
            self.assertRegex(chat.wait_for(r"\[\d+ tokens[^\n]*\]"), "stopped")
            chat.wait_for_prompt()
        chat.type(f"/save {saved}\r")
        chat.wait_for_prompt()
        chat.type("/exit\r")
        self.assertEqual(chat.end(), 0)
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * 2)
        self.assertTrue(all(m["content"] for m in messages))

    def test_ctrl_c_before_an_answer_takes_the_message_back(self):
        slow = {"LOCKSTEP_TEST_COMM_DELAY_US": "20000", "XDG_STATE_HOME": str(self.folder / "state")}
        chat = Terminal("chat", *self.flags, "-n", 5, "--prefill-chunk", 1, "--tp-size", 2, **slow)
        chat.wait_for_prompt()
        chat.type("Hello\r")
        chat.wait_for("Hello\r\n")
        time.sleep(0.5)
        chat.type("\x03")
        self.assertIn("the message is taken back", chat.wait_for_prompt())
        saved = self.folder / "taken_back.json"
        chat.type(f"/save {saved}\r")
        chat.wait_for_prompt()
        self.assertEqual(json.loads(saved.read_text())["messages"], [])
        chat.type("/exit\r")
        self.assertEqual(chat.end(), 0)

    def test_what_is_pasted_during_an_answer_is_one_message(self):
        slow = {"LOCKSTEP_TEST_COMM_DELAY_US": "5000", "XDG_STATE_HOME": str(self.folder / "state")}
        chat = Terminal("chat", *self.flags, "-n", 30, "--tp-size", 2, **slow)
        chat.wait_for_prompt()
        chat.type("Hello\r")
        chat.wait_for("Hello\r\n")
        time.sleep(0.2)
        chat.type("\x1b[200~one\rtwo\r\x1b[201~three\r")
        chat.wait_for(r"\[\d+ tokens")
        chat.wait_for(r"\[\d+ tokens")
        chat.wait_for_prompt()
        saved = self.folder / "ahead.json"
        chat.type(f"/save {saved}\r")
        chat.wait_for_prompt()
        messages = [m["content"] for m in json.loads(saved.read_text())["messages"] if m["role"] == "user"]
        self.assertEqual(messages, ["Hello", "one\ntwo\nthree"])
        chat.type("/exit\r")
        self.assertEqual(chat.end(), 0)


class RealChatTest(unittest.TestCase):
    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-L", f"lockstep{os.getpid()}", *map(str, arguments)], check=True,
                              capture_output=True, text=True).stdout  # fmt: skip

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "chat")

    def wait_for(self, pattern):
        for _ in range(1200):
            if re.search(pattern, self.screen()):
                return self.screen()
            time.sleep(0.1)
        raise AssertionError(f"{pattern} is not on the screen:\n{self.screen()}")

    def say(self, text):
        self.tmux("send-keys", "-t", "chat", "-l", text)
        self.tmux("send-keys", "-t", "chat", "Enter")

    def test_a_conversation(self):
        self.assertIsNotNone(shutil.which("tmux"), "tmux is missing: scripts/setup test installs it")
        with program.tempfile.TemporaryDirectory() as folder:
            command = [BINARY, "chat", "-m", MODEL, "--temp", "0", "--tp-size", "2", "--log-level", "warn"]
            environment = ["-e", f"XDG_STATE_HOME={folder}"]
            self.tmux("new-session", "-d", "-s", "chat", "-x", 90, "-y", 40, *environment, " ".join(command))
            self.addCleanup(self.tmux, "kill-server")
            self.wait_for(r"(?m)^>$")
            self.say("What is the capital of France?")
            self.assertIn("Paris", self.wait_for(r"\d tokens.*positions\]"))
            self.say("Tell me a very long story about a fox.")
            self.wait_for(r"(?s)fox\..*\n.*fox")
            time.sleep(1)
            self.tmux("send-keys", "-t", "chat", "C-c")
            self.wait_for("stopped]")
            self.say(f"/save {folder}/talk.json")
            self.say("/retry")
            self.wait_for(r"(?s)the same each time.*fox")
            self.tmux("send-keys", "-t", "chat", "C-c")
            self.wait_for(r"(?s)stopped\].*stopped\]")
            self.say("/clear")
            self.say(f"/load {folder}/talk.json")
            screen = self.wait_for(r"4 messages")
            with open(f"{folder}/talk.json") as file:
                messages = json.load(file)["messages"]
            self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * 2)
            self.assertIn("Paris", messages[1]["content"])
            print(screen)


if MODEL is None:
    del RealChatTest  # ctest's parity.chat runs it
signal.signal(signal.SIGINT, signal.SIG_DFL)
program.main()
