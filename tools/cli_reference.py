"""The reference of the command line, written from the commands themselves.

python tools/cli_reference.py      writes docs/reference/cli.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from flintmq.cli.all_commands import app
from flintmq.cli.shared.help_page import EXIT_CODES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

HEAD = f"""# The command line

This page is generated from the commands by `python tools/cli_reference.py`; a test checks that it
is up to date.

Every command that asks a cluster takes the options of [a connection](#connection).
`--json`, which is `--output json`, prints facts for programs in place of tables, on stdout;
everything else goes to stderr. {EXIT_CODES}

A table is never cut: where stdout is no terminal nothing is wrapped, and a terminal that is too
narrow for a table shows each row as a block of lines.

`flintmq --install-completion` teaches bash, zsh or fish to complete commands, options, topics and
groups.
"""

CONNECTION = ("namesrv", "access_key", "secret_key", "tls", "tls_ca", "tls_cert", "tls_key")
"""Options that are told once, for all commands."""

LEFT_OUT = frozenset({"install_completion", "show_completion", "help"})


def write() -> str:
    """The whole page."""
    root = typer.main.get_command(app)
    parts = [HEAD, *_table_of_contents(root)]
    shared: list[Any] = []
    for words, command in _walk(("flintmq",), root):
        parts += _section(words, command, shared)
    parts += ["## Connection\n", *_options(shared)]
    return "\n".join(parts).rstrip() + "\n"


def _walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None or command.invoke_without_command:
        yield words, command
    if children is None:
        return
    for name, child in children.items():
        if not child.hidden:
            yield from _walk((*words, name), child)


def _table_of_contents(root: Any) -> Iterator[str]:
    yield "| command | what it does |"
    yield "|---|---|"
    for words, command in _walk(("flintmq",), root):
        name = " ".join(words)
        first = _sentences(command.help).partition("\n")[0].partition(". ")[0].rstrip(".")
        yield f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(first)} |"
    yield ""


def _section(words: tuple[str, ...], command: Any, shared: list[Any]) -> Iterator[str]:
    yield f"## {' '.join(words)}\n"
    yield _sentences(command.help) + "\n"
    shown = [each for each in command.params if each.name not in LEFT_OUT and not each.hidden]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    usage = " ".join(_argument(each) for each in arguments)
    yield f"```\n{' '.join(words)} {usage + ' ' if usage else ''}[OPTIONS]\n```\n"
    if command.examples:
        lines = "\n".join(command.examples)
        yield f"```\n{lines}\n```\n"
    for each in arguments:
        yield f"- `{each.metavar or each.name.upper()}`: {each.help}"
    if arguments:
        yield ""
    options = [each for each in shown if each not in arguments]
    own = [each for each in options if not _is_shared(each, options)]
    if len(own) < len(options) and not shared:
        shared += [each for each in options if _is_shared(each, options)]
    if own:
        yield from _options(own)
    if len(own) < len(options):
        yield "Takes the options of [a connection](#connection) too.\n"


def _is_shared(option: Any, options: list[Any]) -> bool:
    names = {each.name for each in options}
    return option.name in CONNECTION and names.issuperset(CONNECTION)


def _options(options: list[Any]) -> Iterator[str]:
    yield "| option | value | meaning |"
    yield "|---|---|---|"
    for each in options:
        flags = ", ".join(f"`{flag}`" for flag in (*each.opts, *each.secondary_opts))
        yield f"| {flags} | {_value(each)} | {_cell(_meaning(each))} |"
    yield ""


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _value(option: Any) -> str:
    if option.is_flag:
        return ""
    if option.metavar:
        text = option.metavar
    elif choices := getattr(option.type, "choices", None):
        text = "|".join(choices)
    else:
        words = {"int": "NUMBER", "float": "NUMBER", "path": "PATH"}
        text = words.get(option.type.name.removesuffix(" range"), "TEXT")
    return f"`{_cell(text)}`"


def _meaning(option: Any) -> str:
    text = _sentences(option.help)
    variables = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
    if variables:
        text += " Variable: " + ", ".join(f"`{name}`" for name in variables) + "."
    default = getattr(option.default, "value", option.default)
    if isinstance(option.show_default, str):
        text += f" Default: `{option.show_default}`."
    elif default is True:
        text += f" Default: `{option.opts[0]}`."
    elif option.show_default and default not in (None, [], ()) and default is not False:
        text += f" Default: `{default}`."
    return text


def _sentences(text: str) -> str:
    """Paragraphs, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(write(), encoding="utf-8")
