"""One run of the command line: streams, signals, warnings, and how every failure ends."""

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

from truerank.cli.commands import commands
from truerank.errors import (
    ClusterError,
    ExactnessError,
    InputError,
    OwnCodeError,
    TruerankWarning,
    shortened,
)
from truerank.progress import show_notices
from truerank.version import __version__

__all__ = ["main"]

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
        return _complain(error.format_message(), 2)
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
