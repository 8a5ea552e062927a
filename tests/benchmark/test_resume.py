"""Killed anywhere and resumed, with one job or two: the table is the same to the last byte."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmark.small import start, write_config
from truerank.benchmark import runner
from truerank.errors import TruerankWarning


def kill_when(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    """Kill -9 as soon as something has happened; it must not have ended by itself before."""
    while not happened():
        try:
            _, errors = process.communicate(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"it ended before it was killed: {errors}")
    process.kill()
    process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    printed, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return printed


def test_killed_twice_and_resumed_is_as_never_killed(uninterrupted: Path, tmp_path: Path) -> None:
    config, out = write_config(tmp_path), tmp_path / "out"
    kill_when(start(config, out), (out / "trials.csv").exists)
    kill_when(
        start(config, out, "--resume"), lambda: any(out.glob("runs/*/rerun-*/fold-*/fold.json"))
    )
    assert not (out / "openings.jsonl").exists()
    printed = finish(start(config, out, "--resume"))
    for name in ("table.json", "table.csv", "table.md", "table.tex", "reruns.csv", "trials.csv"):
        assert (out / name).read_bytes() == (uninterrupted / name).read_bytes(), name
    assert (out / "openings.jsonl").read_bytes() == (uninterrupted / "openings.jsonl").read_bytes()
    assert "Contrastive" in printed
    assert "The test half was opened 8 times; 0 of them were second looks." in printed


MOVED = ("config.yaml", "splits.json", "study.sqlite", "environment.json")
"""What docs/protocol.md says is enough to go on elsewhere while it still searches."""


@pytest.mark.slow
def test_time_that_is_over_stops_and_a_few_files_go_on_elsewhere(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out, moved = write_config(tmp_path), tmp_path / "out", tmp_path / "moved"
    stopped = start(config, out, "--until", "0.1")
    _, errors = stopped.communicate(timeout=600)
    assert stopped.returncode == 0
    assert "the time is over" in errors
    trials = out / "trials.csv"
    trials.unlink()
    monkeypatch.setattr(runner._Clock, "is_over", property(lambda _: trials.exists()))
    with pytest.warns(TruerankWarning, match="quickdraw is not complete"):
        assert runner.run(config, out, resume=True, until=3600) is None
    assert ",finished" in trials.read_text()
    assert not (out / "table.json").exists()
    assert not (out / "openings.jsonl").exists()
    moved.mkdir()
    for name in MOVED:
        shutil.copy(out / name, moved)
    finish(start(config, moved, "--resume", "--jobs", "2"))
    assert (moved / "table.json").read_bytes() == (uninterrupted / "table.json").read_bytes()


def test_what_it_leaves_behind(uninterrupted: Path) -> None:
    names = {path.name for path in uninterrupted.iterdir()}
    assert names >= {
        "config.yaml", "splits.json", "study.sqlite", "trials.csv", "reruns.csv", "openings.jsonl",
        "table.json", "table.csv", "table.md", "table.tex", "cost.json", "figures", "runs",
    }  # fmt: skip
    assert not list(uninterrupted.glob("runs/*/trial-*"))
    assert len(list(uninterrupted.glob("runs/arcface/rerun-*/fold-*/best.pt"))) == 4
    header, *trials = (uninterrupted / "trials.csv").read_text().splitlines()
    assert header == "method,trial,fold,parameters,score,epochs,state"
    assert len(trials) == 2 * 3 * 2
    header, *reruns = (uninterrupted / "reruns.csv").read_text().splitlines()
    assert header == "method,rerun,fold,metric,value"
    assert len(reruns) == 3 * 3 * (2 + 2 * 3)  # metrics, parts, untrained rows and runs
    drawn = {path.name for path in (uninterrupted / "figures").iterdir()}
    for name in ("gain_over_contrastive", "reruns", "search", "curves", "sensitivity-arcface"):
        assert {f"{name}.svg", f"{name}.png"} <= drawn
