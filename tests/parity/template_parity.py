"""Compares lockstep's chat templates with Python jinja2 as Hugging Face transformers configures it, byte for byte.

    python tests/parity/template_parity.py TEMPLATE_LINES [--tokenizers DIR] [--gguf FILE ...] [--published DIR]
                                           [--fuzz COUNT] [--seed SEED] [--hostile FILE] [--quiet]

TEMPLATE_LINES is the program built from tests/text/template_lines.cc. Rendered are, on every conversation of
tests/oracle/template_conversations.py: the templates in DIR/*/tokenizer_config.json, in the GGUF files, and of the
published models that a release of llama-cpp-python carries in its source (fetched by pip into the directory after
--published, once). --fuzz adds random templates made by tests/oracle/template_fuzz.py. Where jinja2 has an error,
lockstep must have one, and the other way round. --hostile renders the templates of FILE, each in a process of its own,
and prints the most time and memory one takes; memory above 10 MB is a difference. Exits with 1 when there is a difference. Needs: jinja2; gguf for --gguf.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))

import template_conversations  # noqa: E402
import template_fuzz  # noqa: E402
import template_oracle  # noqa: E402

PUBLISHED = "llama-cpp-python==0.3.36"
FEWEST_PUBLISHED = 60
UNSUPPORTED = 3  # ErrorKind::Unsupported


def render_all(program, requests):
    """The answers to (template, input) pairs, by one process."""
    lines = "".join(json.dumps({"template": source, "input": given}) + "\n" for source, given in requests)
    out = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def tokenizer_templates(directory):
    for path in sorted(directory.glob("*/tokenizer_config.json")):
        template = json.loads(path.read_text())["chat_template"]
        for entry in template if isinstance(template, list) else [{"name": "default", "template": template}]:
            yield f"{path.parent.name}/{entry['name']}", entry["template"]


def gguf_templates(files):
    if not files:
        return
    import gguf

    for path in files:
        for key, field in gguf.GGUFReader(path).fields.items():
            if key.startswith("tokenizer.chat_template"):
                if isinstance(value := field.contents(), str):
                    yield f"{pathlib.Path(path).name}/{key}", value


def published_templates(directory):
    """The templates in the source of a llama-cpp-python release, which vendors llama.cpp."""
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    name, version = PUBLISHED.split("==")
    kept = directory / f"{name}-{version}"
    if not kept.is_dir():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--no-binary", name, "--dest", directory, PUBLISHED], check=True, stdout=sys.stderr)
        archive = next(directory.glob("*.tar.gz"))
        unfinished = directory / "unfinished"
        unfinished.mkdir(exist_ok=True)
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(".jinja") and "/models/templates/" in member.name:
                    (unfinished / pathlib.Path(member.name).name).write_bytes(tar.extractfile(member).read())
        archive.unlink()
        unfinished.rename(kept)
    templates = sorted(kept.glob("*.jinja"))
    assert len(templates) >= FEWEST_PUBLISHED, f"{kept} has only {len(templates)} templates"
    for path in templates:
        yield path.stem, path.read_text(encoding="utf-8")


MOST_HOSTILE_BYTES = 10e6


def hostile(program, path):
    """(templates, most milliseconds, most bytes, templates that are not refused within MOST_HOSTILE_BYTES)"""

    def peak(pid):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

    def ask(process, template):
        given = {"messages": [{"role": "user", "content": "Hello"}]}
        process.stdin.write(json.dumps({"template": template, "input": given}).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    cases = json.loads(path.read_text(encoding="utf-8"))
    times, sizes, failed = [], [], 0
    for case in cases:
        with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            ask(process, "{{ messages[0].content }}")
            before, start = peak(process.pid), time.monotonic()
            answer = ask(process, case["template"])
            times.append((time.monotonic() - start) * 1e3)
            sizes.append(peak(process.pid) - before)
            process.stdin.close()
        if "error" not in answer or sizes[-1] > MOST_HOSTILE_BYTES:
            print(f"--- {case['name']}: {sizes[-1]} bytes, {answer}")
            failed += 1
    return len(cases), max(times), max(sizes), failed


def requests_of(templates, conversations):
    now = template_oracle.now_numbers()
    for name, source in templates:
        for label, given in conversations:
            yield f"{name} on {label}", source, {**given, "now": now}


def compare(program, requests, reasons, quiet):
    """(renderings, errors on both sides, refused as unsupported, differences)"""
    oracle = template_oracle.Oracle()
    requests = list(requests)
    ours = render_all(program, ((source, given) for _, source, given in requests))
    errors = unsupported = differences = 0
    for (name, source, given), mine in zip(requests, ours, strict=True):
        theirs = oracle.render(source, given)
        if "error" in mine and "error" in theirs:
            errors += 1
        elif mine.get("kind") == UNSUPPORTED:
            unsupported += 1
            reasons[re.sub(r"line \d+", "line", mine["error"])] += 1
        elif mine.get("text") != theirs.get("text"):
            differences += 1
            if differences <= 10 and not quiet:
                print(f"--- {name}\n    template {source[:600]!r}\n    input    {json.dumps(given)[:600]}")
                print(f"    ours     {mine}\n    jinja2   {theirs}")
    return len(requests), errors, unsupported, differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--tokenizers", type=pathlib.Path)
    parser.add_argument("--gguf", nargs="*", default=[])
    parser.add_argument("--published", type=pathlib.Path)
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hostile", type=pathlib.Path)
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    conversations = list(template_conversations.inputs())
    reasons = collections.Counter()
    total = 0

    def report(what, counted):
        nonlocal total
        rendered, errors, unsupported, differences = counted
        total += differences
        print(
            f"{what}: {rendered} renderings, {errors} of them errors on both sides, {unsupported} not supported, "
            f"{differences} differences",
            flush=True,
        )

    for what, templates in (
        ("tokenizer_config.json", list(tokenizer_templates(arguments.tokenizers)) if arguments.tokenizers else []),
        ("GGUF", list(gguf_templates(arguments.gguf))),
        ("published", list(published_templates(arguments.published))),
    ):
        if templates:
            report(f"{len(templates)} templates ({what})", compare(arguments.program, requests_of(templates, conversations), reasons, arguments.quiet))
    if arguments.hostile:
        count, milliseconds, size, failed = hostile(arguments.program, arguments.hostile)
        total += failed
        print(f"{count} hostile templates: at most {milliseconds:.0f} ms and {size / 1e6:.1f} MB, {failed} not refused so")
    batch = 2000
    for begin in range(0, arguments.fuzz, batch):
        count = min(batch, arguments.fuzz - begin)
        cases = template_fuzz.cases(arguments.seed + begin // batch, count)
        now = template_oracle.now_numbers()
        requests = ((f"random {arguments.seed + begin // batch}", source, {**given, "now": now}) for source, given in cases)
        report(f"random templates, seed {arguments.seed + begin // batch}", compare(arguments.program, requests, reasons, arguments.quiet))
    for reason, count in reasons.most_common():
        print(f"    {count} x {reason}")
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
