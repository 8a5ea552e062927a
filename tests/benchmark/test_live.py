"""What a person sees: a table on a terminal, lines elsewhere, during training and opening."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pytest

from tests.benchmark.small import settings
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout
from truerank.benchmark.plan import open_plan
from truerank.benchmark.runner import Display
from truerank.benchmark.tasks import FoldOutcome


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def show(stream: io.StringIO, folder: Path) -> str:
    """What is told of a search whose first trial has ended, and of the opening after it."""
    config = BenchmarkConfig.of(settings(Path("drawings.npz")))
    folder.mkdir(exist_ok=True)
    with open_plan(config, Layout(folder)) as plan, Display(stream) as display:
        trial = plan.studies.current("arcface")
        assert trial is not None
        for fold in range(2):
            plan.studies.record("arcface", trial, fold, FoldOutcome(0.5, 1, 1, "finished", 1.0, []))
        display.show(plan, [("trial", "arcface", 1, 0), ("baselines",)])
        display.opened(3, 8)
    return stream.getvalue()


def test_a_terminal_has_a_table_and_is_told_of_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    shown = show(Terminal(), tmp_path)
    assert "2 of 24 trainings" in shown
    for word in ("method", "trial", "running folds", "best so far", "1 of 3", "50.00 %"):
        assert word in shown
    assert "test evaluations: 3 of 8" in shown


def test_the_time_left_is_that_of_training(tmp_path: Path) -> None:
    """What scoring the test half takes is not known before it."""
    stream = io.StringIO()
    with open_plan(BenchmarkConfig.of(settings(Path("drawings.npz"))), Layout(tmp_path)) as plan:
        display = Display(stream)
        display.show(plan, [])
        trial = plan.studies.current("arcface")
        assert trial is not None
        plan.studies.record("arcface", trial, 0, FoldOutcome(0.5, 1, 1, "finished", 1.0, []))
        display._told = -math.inf
        display.show(plan, [])
    assert re.search(r"1 of 24 trainings: 4%, about \d+ s of training left", stream.getvalue())


def test_a_log_has_a_line_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = show(io.StringIO(), tmp_path)
    assert told.startswith("truerank: 2 of 24 trainings")
    assert told.endswith("; best so far arcface 50.00 %\n")
    assert told.count("\n") == 1  # the next one comes half a minute later
    monkeypatch.setattr("truerank.benchmark.runner.LOG_SECONDS", 0.0)
    _, line = show(io.StringIO(), tmp_path / "again").splitlines()
    assert line == "truerank: test evaluations: 3 of 8"
