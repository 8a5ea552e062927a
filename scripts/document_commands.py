"""Write docs/reference/commands.md: every command, from the command line itself.

python scripts/document_commands.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from truerank._util.text import TextTable, escape_markdown, pipes
from truerank.cli.commands import commands

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
WRITTEN = "This page is written by `python scripts/document_commands.py`.\n"


def page() -> str:
    """The text of the page: the table of commands, then each of them."""
    rows = [
        [f"[`truerank {name}`](#truerank-{name})", escape_markdown(command.get_short_help_str(100))]
        for name, command in commands.commands.items()
    ]
    table = pipes(TextTable(["command", "what it does"], rows, words=(0, 1)))
    return "\n\n".join(
        [
            "# Commands",
            "`truerank` alone lists the commands, `truerank COMMAND --help` explains one. Results\n"
            "go to stdout, progress and notes to stderr. Bad input ends in one sentence and exit\n"
            "status 2.",
            table.rstrip(),
            *(
                part
                for name, command in commands.commands.items()
                for part in _parts(name, command)
            ),
            WRITTEN,
        ]
    )


def _parts(name: str, command: click.Command) -> Iterator[str]:
    yield f"## truerank {name}"
    yield from _body(f"truerank {name}", command)
    if isinstance(command, click.Group):
        for sub, below in command.commands.items():
            yield f"### {name} {sub}"
            yield from _body(f"truerank {name} {sub}", below)


def _body(path: str, command: click.Command) -> Iterator[str]:
    """What is typed, what it does, the options, examples."""
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    words = [path, *(["COMMAND"] if isinstance(command, click.Group) else ["[OPTIONS]"])]
    yield f"```text\n{' '.join([*words, *map(_argument, arguments)])}\n```"
    yield from _paragraphs(command.help or "")
    options = [one for one in command.params if isinstance(one, click.Option)]
    if options:
        rows = [[_names(one), _prose(_help(one))] for one in options]
        yield pipes(TextTable(["option", ""], rows, words=(0, 1))).rstrip()
    if command.epilog:
        lines = command.epilog.replace("\b\n", "").splitlines()
        kept = [line.removeprefix("  ") for line in lines if line.strip() != "Examples:"]
        yield "Examples:\n\n```sh\n" + "\n".join(kept).strip() + "\n```"


def _paragraphs(text: str) -> Iterator[str]:
    """Help as Markdown: what click keeps as it is becomes a block of code."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            code = [line.strip() for line in lines[1:]]
            yield "```sh\n" + "\n".join(code) + "\n```"
        else:
            yield _prose(paragraph)


def _prose(text: str) -> str:
    """Words as they are; what stands between backticks is code in both."""
    return escape_markdown(text).replace("\\`", "`")


def _argument(argument: click.Argument) -> str:
    name = (argument.name or "").upper() + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _names(option: click.Option) -> str:
    """'`-k`, `--name TEXT`'."""
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else f" {_value(option)}"
    return ", ".join(f"`{name}`" for name in [*names[:-1], names[-1] + value])


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "/".join(map(str, option.type.choices))
    if option.metavar:
        return option.metavar
    names = {"path": "FILE", "integer": "N", "float": "X", "metric": "METRICS", "choice": "NAME"}
    names["integer range"] = "N"
    return names.get(option.type.name, option.type.name.upper())


def _help(option: click.Option) -> str:
    """The help of an option, with its default where that is shown."""
    context = click.Context(click.Command("truerank"))
    record = option.get_help_record(context)  # some options write their help when it is asked for
    text = option.help or ("" if record is None else record[1])
    text += " Required." if option.required else ""
    shown = option.show_default and option.default is not None and not option.is_flag
    return f"{text} Default: {option.default}." if shown else text


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(TARGET)
