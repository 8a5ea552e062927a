"""truerank evaluate --resume: what an interrupted run counted is not counted again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.driving import run
from tests.conftest import Within
from truerank._util.settings import settings
from truerank.cli import evaluate


@pytest.fixture
def simple(data: Path) -> list[str]:
    return ["evaluate", str(data / "embeddings.npy"), "--labels", str(data / "labels.csv")]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch, within: Within) -> Iterator[pytest.MonkeyPatch]:
    """Ctrl-C at the first sign of progress; a nested context that is undone ends it."""
    within(settings(checkpoint_worth=0.0))
    with settings(query_rows=2, gallery_rows=2, sort_share=1.0), monkeypatch.context() as m:

        @contextmanager
        def stopping(*_: Any) -> Iterator[Callable[[int, int], None]]:
            def report(done: int, total: int) -> None:
                raise KeyboardInterrupt

            yield report

        m.setattr(evaluate, "progress_bar", stopping)
        yield m


def scores(path: Path) -> Any:
    return json.loads(path.read_text())["scores"]


def test_beside_the_output(
    simple: list[str], tmp_path: Path, interrupt: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "result.json"
    checkpoint = tmp_path / "result.json.checkpoint"
    stopped = run(*simple, "-o", output)
    assert stopped.complaint(130) == f"interrupted; pass --resume to continue from {checkpoint}."
    assert os.listdir(tmp_path) == [checkpoint.name]
    again = run(*simple, "-o", output, "--resume")
    assert again.status == 130
    interrupt.undo()
    refused = run(*simple, "-o", output).complaint()
    assert refused.startswith(f"{checkpoint} holds an interrupted evaluation: pass --resume")
    assert run(*simple, "-o", output, "--resume").status == 0
    assert os.listdir(tmp_path) == [output.name]
    run(*simple, "-o", tmp_path / "other.json")
    assert scores(output) == scores(tmp_path / "other.json")


def test_a_file_of_its_own(
    simple: list[str], tmp_path: Path, interrupt: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "counts"
    assert str(path) in run(*simple, "--checkpoint", path).complaint(130)
    assert os.listdir(tmp_path) == ["counts"]
    interrupt.undo()
    assert (
        "another choice of metrics"
        in run(*simple, "--checkpoint", path, "--resume", "-m", "map").complaint()
    )
    done = run(*simple, "--checkpoint", path, "--resume", "--format", "csv")
    assert done.status == 0
    assert done.out == run(*simple, "--format", "csv").out
    assert os.listdir(tmp_path) == []


def test_nothing_to_resume_is_a_beginning(simple: list[str], tmp_path: Path) -> None:
    """So that a job that may be killed at any time can be started by one command line."""
    assert run(*simple, "-o", tmp_path / "result.json", "--resume").status == 0
    assert os.listdir(tmp_path) == ["result.json"]


def test_resume_what(simple: list[str]) -> None:
    assert run(*simple, "--resume").complaint() == (
        "--resume needs -o or --checkpoint, to know which run to continue."
    )


def test_over_another_file(simple: list[str], tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    for path in (output, Path(simple[1]), Path(simple[3])):
        complaint = run(*simple, "-o", output, "--checkpoint", path, "--resume").complaint()
        assert complaint == f"--checkpoint would be written over {path}."
