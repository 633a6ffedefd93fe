"""Chat templates as Hugging Face transformers renders them: Python jinja2 in its immutable sandbox, with the settings,
globals and filters of transformers' apply_chat_template. The clock stands still, so that renderings can be compared.
"""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

NOW = datetime.datetime(2026, 3, 9, 14, 5, 7)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the model itself wrote; it renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):  # so that even "self" can be a name
        self, args = args[0], args[1:]
        values = dict(*args, **kwargs)
        for name in values:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace takes no name like {name!r}")


class DictFactory:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    env.globals["dict"] = DictFactory()
    env.globals["namespace"] = Namespace
    return env


def now_numbers():
    """NOW as the fixtures and the C++ tests have it."""
    t = NOW.timetuple()
    return [t.tm_year, t.tm_mon, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (t.tm_wday + 1) % 7, t.tm_yday - 1]


class Oracle:
    """Renders; remembers the last template."""

    def __init__(self):
        self.env = environment()
        self.source = self.template = None

    def render(self, source, given):
        """{"text": ...} or {"error": ...}."""
        try:
            if source != self.source:
                self.source, self.template = None, None
                self.template = self.env.from_string(source)
                self.source = source
            variables = {**given.get("special_tokens", {}), **given.get("variables", {})}
            text = self.template.render(
                messages=given.get("messages", []),
                tools=given.get("tools"),
                documents=given.get("documents"),
                add_generation_prompt=given.get("add_generation_prompt", True),
                **variables,
            )
            text.encode()  # lone surrogates are no text
            return {"text": text}
        except (Exception, RecursionError) as error:  # whatever Python raises, is an error of the template
            return {"error": f"{type(error).__name__}: {error}"}
