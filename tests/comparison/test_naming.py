"""Names of compared results: what tells their files apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from tests.cli.driving import run
from truerank.analysis.differences import name_models


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a.json", "b.json"], ["a", "b"]),
        (["runs/a/result.json", "runs/b/result.json"], ["a", "b"]),
        (["runs/a/fold1/result.json", "runs/b/fold1/result.json"], ["a", "b"]),
        (["a/seed1.json", "b/seed1.json", "a/seed2.json"], ["a/seed1", "b/seed1", "a/seed2"]),
        (["result.json", "old/result.json"], ["result", "old"]),
        (["a/x/result.json", "b/result.json"], ["a/x", "b"]),
        (["result.json", "result.json"], ["result (1)", "result (2)"]),
        ([["a/0.json", "a/1.json"], "baseline.json"], ["a", "baseline"]),
        ([["a-0.json", "a-1.json"], ["b-0.json", "b-1.json"]], ["a", "b"]),
        (
            [["r/a/s0/result.json", "r/a/s1/result.json"], ["r/b/s0/result.json"]],
            ["a", "result"],
        ),
        ([["a.json"], ["b.json"]], ["a", "b"]),
    ],
    ids=str,
)
def test_files(files: list[str | list[str]], names: list[str]) -> None:
    assert name_models(files) == names
    assert len(set(names)) == len(names)


def test_results_without_a_file_are_numbered() -> None:
    result = truerank.evaluate(*clusters(0))
    assert name_models([result, "a.json", [result, result]]) == ["model 1", "a", "model 3"]


def test_on_the_command_line(tmp_path: Path) -> None:
    """Two runs that call their results alike."""
    x, y = clusters(1)
    paths = []
    for number, name in enumerate(("arcface", "triplet")):
        moved = x + number * np.random.default_rng(0).standard_normal(x.shape)
        paths.append(tmp_path / "runs" / name / "result.json")
        paths[-1].parent.mkdir(parents=True)
        truerank.evaluate(moved, y, metrics="map@r").to_json(paths[-1])
    lines = run("compare", *paths).out.splitlines()
    [header] = [line for line in lines if line.startswith("metric")]
    assert header.split()[:3] == ["metric", "arcface", "triplet"]
