"""Entry of the command line: all commands, streams, signals, warnings and exit codes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import signal
import sys
import textwrap
import traceback
import warnings
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
from click.shell_completion import shell_complete

from truerank._util.errors import (
    ClusterError,
    ExactnessError,
    InputError,
    OwnCodeError,
    TruerankWarning,
    shortened,
    warn,
)
from truerank._util.installed import __version__
from truerank._util.old_names import REMOVED, RENAMED_COMMANDS, RENAMED_OPTIONS
from truerank._util.progress import show_notices
from truerank.cli.analysis import audit, compare, compression, explain, neighbors, threshold
from truerank.cli.competition import conform, leaderboard, task
from truerank.cli.evaluate import evaluate, lists, metrics, verify
from truerank.cli.pages import demo, plot, report
from truerank.cli.training import benchmark, data, embed, shard, train

# One run of the command line: streams, signals, warnings, and how every failure ends.


COMPLETE = "_TRUERANK_COMPLETE"
"""Set by a shell that wants to complete a command."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 2 bad input, 1 a bug, 130 interrupted."""
    for name in ("stdout", "stderr"):  # closed by the caller: Python then has no such stream
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may be in letters that it cannot print
        sys.stdout.reconfigure(errors="backslashreplace")
    show_notices(_tell)
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", TruerankWarning)
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        signal.signal(signal.SIGTERM, _terminate)
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    _notes.clear()
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = os.environ.get(COMPLETE)
    try:
        if asked:
            return shell_complete(commands, {}, "truerank", COMPLETE, asked)
        # Not commands.main, which has its own ways with interrupts and closed pipes.
        with commands.make_context("truerank", given) as context:
            commands.invoke(context)
        for note in dict.fromkeys(_notes):
            _tell(f"note: {note}")
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except OwnCodeError as error:
        click.echo(error.trace, err=True)
        return _complain(error.args[0], 2)
    except InputError as error:
        return _complain(str(error), 2)
    except click.ClickException as error:
        return _complain(_shorter(error.format_message(), given), 2)
    except (click.Abort, KeyboardInterrupt) as stop:
        return _complain(f"interrupted; {str(stop) or 'nothing was left half-written'}.", 130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):  # no name of a file
            return _complain(f"{shortened(error.filename)}: {error.strerror}.", 2)
        return _complain(f"cannot write the result: {error.strerror or error}.", 1)
    except (ClusterError, ExactnessError) as error:
        return _complain(str(error), 1)
    except MemoryError:
        return _complain("out of memory; evaluate fewer rows, or fewer threads at once.", 1)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:300]
        return _complain(
            f"this is a bug in truerank {__version__}: {type(error).__name__}: {text} "
            f"({Path(where.filename).name}:{where.lineno}); set TRUERANK_TRACEBACK=1 for details.",
            1,
        )
    return 0


def _shorter(sentence: str, given: list[str]) -> str:
    """A sentence of click's, in which arguments are quoted as long as they are."""
    for text in given:
        for part in (text, text.partition("=")[2]):
            sentence = sentence.replace(repr(part), shortened(part))
    return sentence


_notes: list[str] = []
"""Warnings of a run, shown when it has succeeded; a refusal is a single line."""


def _complain(sentence: str, status: int) -> int:
    if os.environ.get("TRUERANK_TRACEBACK") and status == 1:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        _tell(" ".join(sentence.split()))
    return status


def _tell(sentence: str) -> None:
    """A sentence on stderr: a line, or on a terminal as many as keep its words whole."""
    line = f"truerank: {sentence}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(
            line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    click.echo(line, err=True)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    _notes.append(" ".join(str(message).split()))


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


# All commands, in the groups in which `truerank` alone lists them.


GROUPS: dict[str, tuple[click.Command, ...]] = {
    "Score": (evaluate, verify, lists, compare),
    "Look": (report, plot, neighbors, audit, explain),
    "Decide": (threshold, compression),
    "Train": (train, embed, benchmark, data),
    "More": (demo, metrics, conform, task, leaderboard, shard),
}


EPILOG = """\b
Examples:
  truerank demo
  truerank evaluate embeddings.npy --labels labels.csv -o result.json
  truerank compare a.json b.json --format latex
  truerank COMMAND --help

\b
Completion in bash (or zsh_source, fish_source):
  eval "$(_TRUERANK_COMPLETE=bash_source truerank)"
"""


class _Commands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if f"truerank {args[0]}" in REMOVED:
            raise InputError(REMOVED[f"truerank {args[0]}"])
        if args[0] == "help":  # truerank help COMMAND
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        return super().resolve_command(ctx, _in_new_words(args))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each group below its name."""
        width = max(map(len, self.commands))
        for heading, below in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{one.name or '':{width}}", one.get_short_help_str(100)) for one in below]
                )


def _in_new_words(args: list[str]) -> list[str]:
    """A command line whose renamed command and options have their new names, with a note each."""
    name, *rest = args
    if name in RENAMED_COMMANDS:
        new = RENAMED_COMMANDS[name]
        warn(f"truerank {name} is now truerank {new}; the old name goes in 0.3.0.")
        rest = _of_truth(rest) if name == "truth" else rest
        name, *more = new.split()
        rest = [*more, *rest]
    for place, word in enumerate(rest):
        option, equals, value = word.partition("=")
        if option == "--":
            break
        if option in RENAMED_OPTIONS:
            warn(f"{option} is now {RENAMED_OPTIONS[option]}; the old name goes in 0.3.0.")
            rest[place] = RENAMED_OPTIONS[option] + equals + value
    return [name, *rest]


def _of_truth(args: list[str]) -> list[str]:
    """The arguments of `truerank truth QUERIES GALLERY` for neighbors: every option has a value."""
    given, names = [], 0
    words = iter(args)
    for word in words:
        if word.startswith("-") and len(word) > 1:
            given.append(word)
            if "=" not in word and word not in ("-h", "--help"):
                given += [value for value in [next(words, None)] if value is not None]
        else:
            names += 1
            given += ["--gallery", word] if names == 2 else [word]
    return given


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="truerank")
@click.pass_context
def commands(context: click.Context) -> None:
    """Exact, tie-proof scores for embedding models."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (command for group in GROUPS.values() for command in group):
    commands.add_command(command)
