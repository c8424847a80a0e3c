#!/usr/bin/env python3
"""Applies a checkpoint's chat template to messages, as the package `transformers` does it.

Standard input: {"template": text, "messages": the messages as JSON text, "tokens": {"bos_token":
text, ...}}. Standard output: {"text": ...}, {"error": sentence} or {"missing": package}.
"""
import datetime
import json
import resource
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print(json.dumps({"missing": "jinja2"}))
    sys.exit(0)

CPU_SECONDS = 20  # a template may loop
MEMORY_BYTES = 2 << 30


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant said; its text stays as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.now().strftime(form)


def as_templates_read_it(message):
    """A null key is none: "None" would be written for it. Reasoning goes by more than one name."""
    message = {key: value for key, value in message.items() if value is not None}
    names = [n for n in ("reasoning_content", "thinking", "reasoning") if n in message]
    if names:
        text = message[names[0]]
        message = {"thinking": text, **message, "reasoning_content": text}
    return message


def rendered(request):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    template = environment.from_string(request["template"])
    messages = [as_templates_read_it(message) for message in json.loads(request["messages"])]
    return template.render(messages=messages, tools=None, documents=None,
                           add_generation_prompt=True, **request["tokens"])


def main():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    request = json.load(sys.stdin.buffer)
    try:
        answer = {"text": rendered(request)}
    except Exception as error:  # whatever a stranger's template does
        answer = {"error": " ".join((str(error) or type(error).__name__).split())}
    print(json.dumps(answer))


main()
