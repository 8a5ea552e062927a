"""Running the command line: in this process (fast), or as a process of its own (as people do)."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

import truerank
from truerank._util.kernels import COMPILING
from truerank.cli import main

COMMAND = (sys.executable, "-m", "truerank")
SOURCE = Path(truerank.__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    status: int
    out: str
    err: str
    """Without the lines that name written files, which are in `wrote`."""
    wrote: tuple[str, ...] = ()

    def complaint(self, status: int = 2) -> str:
        """The single line of a run that refused its input; nothing else was printed."""
        assert self.status == status, self
        assert self.out == "", self
        assert_one_line(self.err)
        return self.err.removeprefix("truerank: ").strip()


def assert_one_line(text: str) -> None:
    assert text.startswith("truerank: "), text
    assert text.endswith("\n"), text
    assert len(text.splitlines()) == 1, text
    assert "Traceback" not in text, text


def run(*arguments: object) -> Outcome:
    """The command line in this process; what it changes there is put back."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.raises(SystemExit) as stopped,
        ):
            main([str(argument) for argument in arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    status = stopped.value.code
    assert isinstance(status, int)
    return _outcome(status, out.getvalue(), err.getvalue())


def environment() -> dict[str, str]:
    """This one, with the truerank under test and without settings that change the output."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TRUERANK_TRACEBACK")
    }
    path = os.environ.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([str(SOURCE), *([path] if path else [])])
    return variables


def run_process(*arguments: object) -> Outcome:
    """The command line as a process, neither of its ends a terminal."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(),
        timeout=120,
        check=False,
    )
    return _outcome(done.returncode, done.stdout, done.stderr)


def _outcome(status: int, out: str, err: str) -> Outcome:
    """Divide stderr, without the notice of kernels that are compiled for the first time."""
    lines = err.replace(f"truerank: {COMPILING}\n", "").splitlines(keepends=True)
    wrote = tuple(line.rstrip("\n") for line in lines if line.startswith("Wrote "))
    return Outcome(
        status, out, "".join(line for line in lines if not line.startswith("Wrote ")), wrote
    )
