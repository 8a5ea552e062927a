"""Write docs/reference/commands.md: every command, from the command line itself.

python scripts/document_commands.py
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from truerank._util.text import TextTable, escape_markdown, pipes
from truerank.cli.commands import GROUPS, commands
from truerank.cli.options import HEADINGS, Command

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
WRITTEN = "This page is written by `python scripts/document_commands.py`.\n"


SHARED_FROM = 2
"""Options that this number of commands have in the same words are explained once."""


def page() -> str:
    """Return the text of the page: commands by group, shared options, then each command."""
    rows = [
        [
            heading,
            f"[`{one.name}`](#truerank-{one.name})",
            escape_markdown(one.get_short_help_str(100)),
        ]
        for heading, below in GROUPS.items()
        for one in below
    ]
    shared = _shared()
    table = pipes(TextTable(["group", "command", "what it does"], rows, words=(0, 1, 2)))
    return "\n\n".join(
        [
            "# Commands",
            "`truerank` alone lists the commands, `truerank COMMAND --help` explains one. Results\n"
            "go to stdout; progress, notes and the names of written files go to stderr. Bad input\n"
            "ends in one sentence and exit status 2.",
            table.rstrip(),
            "## Shared options",
            "The section of each command names those of these options that it has.",
            _table({"": list(shared.values())}),
            *(
                part
                for name, command in commands.commands.items()
                for part in _parts(name, command, set(shared))
            ),
            WRITTEN,
        ]
    )


def _shared() -> dict[tuple[str, str], click.Option]:
    """Return the options that several commands have, each in its most frequent form."""
    found: dict[tuple[str, str], list[click.Option]] = {}
    for command in _leaves(commands):
        for one in command.params:
            if isinstance(one, click.Option):
                found.setdefault(_key(one), []).append(one)
    chosen: dict[str, tuple[str, str]] = {}
    for key in sorted(found, key=lambda key: len(found[key]), reverse=True):
        if len(found[key]) >= SHARED_FROM:
            chosen.setdefault(found[key][0].opts[-1], key)
    order = " ".join(HEADINGS.values()).split()
    several = {key: found[key][0] for key in chosen.values()}
    return dict(sorted(several.items(), key=lambda item: order.index(str(item[1].name))))


def _key(option: click.Option) -> tuple[str, str]:
    return _names(option), _help(option)


def _leaves(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from _leaves(command)
        else:
            yield command


def _options(command: click.Command) -> dict[str, list[click.Option]]:
    """Return the options of a command under each heading."""
    return command.options_by_heading() if isinstance(command, Command) else {}


def _parts(name: str, command: click.Command, shared: Collection[Any]) -> Iterator[str]:
    yield f"## truerank {name}"
    yield from _body(f"truerank {name}", command, shared)
    if isinstance(command, click.Group):
        for sub, below in command.commands.items():
            yield f"### {name} {sub}"
            yield from _body(f"truerank {name} {sub}", below, shared)


def _body(path: str, command: click.Command, shared: Collection[Any]) -> Iterator[str]:
    """Write examples, what is typed, what it does, and the options."""
    if command.epilog and not isinstance(command, click.Group):
        lines = command.epilog.replace("\b\n", "").splitlines()
        kept = [line.removeprefix("  ") for line in lines if line.strip() != "Examples:"]
        yield "```sh\n" + "\n".join(kept).strip() + "\n```"
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    words = [path, *(["COMMAND"] if isinstance(command, click.Group) else ["[OPTIONS]"])]
    yield f"`{' '.join([*words, *map(_argument, arguments)])}`"
    yield from _paragraphs(command.help or "")
    headed = _options(command)
    own = {
        heading: [one for one in options if _key(one) not in shared]
        for heading, options in headed.items()
    }
    if any(own.values()):
        yield _table(own)
    common = [one for options in headed.values() for one in options if _key(one) in shared]
    if common:
        names = ", ".join(f"`{one.opts[-1]}`" for one in common)
        yield f"[Shared options](#shared-options): {names}."


def _table(headed: Mapping[str, list[click.Option]]) -> str:
    rows = []
    for heading, options in headed.items():
        if options and len(headed) > 1:
            rows.append([f"**{heading}**", ""])
        rows += [[_names(one), _prose(_help(one))] for one in options]
    return pipes(TextTable(["option", ""], rows, words=(0, 1))).rstrip()


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
    name = (argument.metavar or argument.name or "").upper() + (
        "..." if argument.nargs != 1 else ""
    )
    return name if argument.required else f"[{name}]"


def _names(option: click.Option) -> str:
    """'`-k`, `--name TEXT`'."""
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else f" {_value(option)}"
    return ", ".join(f"`{name}`" for name in [*names[:-1], names[-1] + value])


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "/".join(map(str, option.type.choices))
    return option.make_metavar(click.Context(click.Command("truerank")))


def _help(option: click.Option) -> str:
    """The help of an option, with its default where that is shown."""
    context = click.Context(click.Command("truerank"))
    record = option.get_help_record(context)  # some options write their help when it is asked for
    text = option.help or ("" if record is None else record[1])
    text += " Required." if option.required else ""
    shown = option.show_default and option.default is not None and not option.is_flag
    text = text.replace("  [default: ", " [default: ")
    return f"{text} Default: {option.default}." if shown else text


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(TARGET)
