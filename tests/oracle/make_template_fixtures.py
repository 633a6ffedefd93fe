"""Writes tests/fixtures/templates: what Python jinja2 makes of the templates there (NAME.jinja) on every conversation of
template_conversations.py.

    python tests/oracle/make_template_fixtures.py OUT_DIR

inputs.json holds the inputs, NAME.json what the template gives for each: the text, or null where jinja2 has an error.
expressions.json and random.json hold small templates (of template_expressions.py and template_fuzz.py) with input and
text. versions.json names what made them. Needs: jinja2.
"""

import importlib.metadata
import json
import pathlib
import platform
import re
import sys

import template_conversations
import template_expressions
import template_fuzz
import template_oracle


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


RANDOM_SEED, RANDOM_CASES = 20260309, 400
LONGEST_RANDOM = 2000  # characters of a template and what it gives; the rest is left to the fuzzer


def small_cases(oracle, cases):
    for source, given in cases:
        yield {"template": source, "input": given, "text": oracle.render(source, given).get("text")}


def main():
    out = pathlib.Path(sys.argv[1])
    now = template_oracle.now_numbers()
    inputs = [{"label": label, "input": {**given, "now": now}} for label, given in template_conversations.inputs()]
    write(out / "inputs.json", inputs)
    oracle = template_oracle.Oracle()
    for path in sorted(out.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        texts = [oracle.render(source, each["input"]).get("text") for each in inputs]
        rendered = sum(text is not None for text in texts)
        assert rendered > len(texts) // 4, f"{path} renders only {rendered} of {len(texts)}"
        write(path.with_suffix(".json"), texts)
        print(f"{path.stem}: {rendered} of {len(texts)} render")
    given = {"variables": template_expressions.VARIABLES, "now": now}
    expressions = ((f"{{{{ {each} }}}}", given) for each in template_expressions.expressions())
    templates = ((each, {}) for each in template_expressions.TEMPLATES)
    write(out / "expressions.json", list(small_cases(oracle, [*expressions, *templates])))
    cases = ((source, {**given, "now": now}) for source, given in template_fuzz.cases(RANDOM_SEED, RANDOM_CASES))
    small = (case for case in small_cases(oracle, cases) if len(case["template"]) + len(case["text"] or "") < LONGEST_RANDOM)
    # Not to be compared: addresses, and integers above 64 bits.
    write(out / "random.json", [case for case in small if not re.search(r" at 0x|\d{20}", case["text"] or "")])
    versions = {name: importlib.metadata.version(name) for name in ("jinja2", "markupsafe")}
    write(out / "versions.json", {"python": platform.python_version(), **versions})


if __name__ == "__main__":
    main()
