"""What is not the user's fault: a bug, the machine's arithmetic, memory, an interrupt."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

import truerank
from tests.cli.driving import run
from truerank.cli import inputs


def failing_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: Any) -> Any:
        raise error

    monkeypatch.setattr(inputs, "evaluate_files", fail)


@pytest.fixture
def simple(data: Path) -> list[object]:
    return ["evaluate", data / "embeddings.npy", "--labels", data / "labels.csv"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("two\nlines\n  of text"),
        KeyError("scores"),
        ZeroDivisionError("division by zero"),
        RecursionError("maximum recursion depth exceeded"),
        EOFError("read past the end"),
        ValueError("x" * 5000),
        AssertionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_bug_is_one_short_line(
    error: Exception, simple: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_with(error, monkeypatch)
    monkeypatch.delenv("TRUERANK_TRACEBACK", raising=False)
    line = run(*simple).complaint(status=1)
    assert "bug" in line
    assert type(error).__name__ in line
    assert truerank.__version__ in line
    assert "test_failures.py" in line  # where it was raised
    assert "TRUERANK_TRACEBACK=1" in line
    assert len(line) < 600


def test_a_traceback_can_be_asked_for(
    simple: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_with(RuntimeError("the cause"), monkeypatch)
    monkeypatch.setenv("TRUERANK_TRACEBACK", "1")
    outcome = run(*simple)
    assert outcome.status == 1
    assert outcome.out == ""
    assert "Traceback (most recent call last)" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("truerank: ")


def test_bad_input_has_no_traceback_even_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUERANK_TRACEBACK", "1")
    complaint = run("evaluate", "nowhere.npy", "--labels", "nowhere.csv").complaint()
    assert complaint.startswith("cannot read nowhere.npy")


def test_inexact_arithmetic_is_no_bug_of_ours(
    simple: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_with(truerank.ExactnessError("this BLAS rounds; use another."), monkeypatch)
    assert run(*simple).complaint(status=1) == "this BLAS rounds; use another."


def test_out_of_memory(simple: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(MemoryError(), monkeypatch)
    assert "memory" in run(*simple).complaint(status=1)


def test_an_interrupt(simple: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(KeyboardInterrupt(), monkeypatch)
    outcome = run(*simple)
    assert outcome.status == 130
    assert outcome.out == ""
    assert outcome.err == "truerank: interrupted; nothing was left half-written.\n"


def test_a_full_disk_below_stdout_is_no_bug(
    simple: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_with(OSError(errno.ENOSPC, "No space left on device"), monkeypatch)
    line = run(*simple).complaint(status=1)
    assert "No space left on device" in line
    assert "bug" not in line
