"""The published benchmarks: page, tables, logs and searches say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripts.benchmark.restore import published_trials

from truerank.benchmark import tables
from truerank.benchmark.config import read
from truerank.benchmark.holdout import Openings, read_reruns
from truerank.benchmark.methods import deviations, methods_of
from truerank.benchmark.statistics import PARTS, numbers
from truerank.benchmark.tasks import FoldOutcome

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FOLDERS = [RESULTS / "benchmark" / name for name in ("quickdraw", "emoji-linear")]


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def table(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "table.json").read_text())
    return found


def test_the_page_shows_the_table_and_the_configuration(
    folder: Path, table: dict[str, Any]
) -> None:
    page = (RESULTS / "benchmark.md").read_text(encoding="utf-8")
    assert tables.as_markdown(table).strip() in page
    assert (folder / "config.yaml").read_text().strip() in page
    for picture in ("curves", "search", "reruns", "gain_over_contrastive", "gain_over_triplet"):
        assert f"(benchmark/{folder.name}/{picture}.svg)" in page
    for row in table["rows"]:
        if "parameters" in row:
            assert f"(benchmark/{folder.name}/sensitivity-{row['method']}.svg)" in page
    assert table["deviations"] == deviations(read(folder / "config.yaml"))


def test_the_table_follows_from_the_reruns(folder: Path, table: dict[str, Any]) -> None:
    found = numbers(read_reruns(folder / "reruns.csv"))
    for row in table["rows"]:
        for part in PARTS:
            assert row[part] == found[row["method"]].get(part, {})
            if "default" in row:
                assert row["default"][part] == found[row["method"]][f"default {part}"]


def test_the_log_of_openings_holds(folder: Path, table: dict[str, Any]) -> None:
    openings = Openings(folder / "openings.jsonl")
    assert table["openings"] == {
        "count": openings.count,
        "second_looks": openings.second_looks(),
        "head": openings.head,
    }


def test_the_parameters_are_those_of_the_best_trial(folder: Path, table: dict[str, Any]) -> None:
    scores: dict[str, list[float]] = {}
    found: dict[str, list[str]] = {}
    for (method, _), (parameters, folds) in published_trials(folder).items():
        scores.setdefault(method, []).append(mean(folds))
        found.setdefault(method, []).append(parameters)
    assert set(scores) == {method.name for method in methods_of(read(folder / "config.yaml"))}
    for row in table["rows"]:
        if "parameters" in row:
            best = max(scores[row["method"]])
            assert row["validation"]["score"] == pytest.approx(best, rel=1e-15)
            at = scores[row["method"]].index(best)
            assert row["validation"]["best_trial"] == at
            assert json.loads(found[row["method"]][at]) == row["parameters"]


def mean(folds: dict[int, FoldOutcome]) -> float:
    """A trial's score: 0 if a fold diverged."""
    outcomes = [folds[fold] for fold in range(4)]
    if any(one.state == "diverged" for one in outcomes):
        return 0.0
    return sum(one.score for one in outcomes) / 4
