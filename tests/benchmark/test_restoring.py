"""A published benchmark, put together again: the same models, and no second look."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from scripts.benchmark.restore import published_trials, restore

from tests.benchmark.test_resume import finish, start

PUBLISHED = ("config.yaml", "trials.csv", "openings.jsonl", "cost.json")
REAL = Path(__file__).parents[2] / "docs" / "results" / "benchmark" / "emoji-linear"


def test_the_published_trials_are_those_of_the_protocol() -> None:
    trials = published_trials(REAL)
    assert len(trials) == 12 * 50
    assert {len(folds) for _, folds in trials.values()} == {4}


@pytest.mark.slow
def test_a_restored_benchmark_comes_to_the_same_table(uninterrupted: Path, tmp_path: Path) -> None:
    kept, folder = tmp_path / "published", tmp_path / "restored"
    kept.mkdir()
    for name in PUBLISHED:
        shutil.copy(uninterrupted / name, kept)
    restore(kept, folder, without=["arcface"])
    printed = finish(start(kept / "config.yaml", folder, "--resume", "--jobs", "2"))
    assert "0 of them were repetitions" in printed
    for name in ("table.json", "reruns.csv", "trials.csv", "openings.jsonl"):
        assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name
