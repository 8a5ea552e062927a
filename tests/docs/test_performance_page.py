"""The page on speed shows the recorded run, to the last digit."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def script() -> Any:
    spec = importlib.util.spec_from_file_location(
        "document_performance", ROOT / "scripts/document_performance.py"
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def test_tables_and_picture_are_those_of_the_recorded_runs() -> None:
    module = script()
    text = module.PAGE.read_text(encoding="utf-8")
    for name, put in module.PARTS.items():
        record = json.loads((module.BENCH / f"{name}.json").read_text(encoding="utf-8"))
        assert put(text, record) == text
        if name == "cpu":
            picture = module.PICTURE.read_text(encoding="utf-8")
            assert module.picture(record) == picture
            ElementTree.fromstring(picture)


@pytest.mark.slow
def test_thresholds_are_measured_in_turns() -> None:
    """In a small form: every way of every group, and ratios to both rankings."""
    rows = np.random.default_rng(0).normal(size=(90, 6))
    task = {"embeddings": rows, "labels": np.arange(90) // 3}
    openset = script().openset
    record = openset.measure(2, 1, (task, task))
    lines = openset.lines(record)
    assert len(lines) == 2 + 4 + 5
    assert all(line.count("|") == 8 for line in lines)
    assert lines[2].startswith("| ranking by default, Market-1501's size | ")
    for shape, ways in record["seconds"].items():
        assert set(ways) == set(openset.WAYS), shape
        assert all(len(spent) == 2 for way in ways.values() for spent in way.values())


def test_ratios_are_medians_of_the_ratios_in_each_round() -> None:
    case = {"rows": 20_000, "dimensions": 512, "mates": 5, "data": "trained"}

    def entry(name: str, processor: list[float]) -> dict[str, Any]:
        rounds = [
            {"seconds": 1.0, "processor": p, "megabytes": 10.0, "score": None} for p in processor
        ]
        return {"case": case, "contender": name, "rounds": rounds}

    measured = [entry("float32 GEMM", [2.0, 4.0, 8.0]), entry("truerank", [1.0, 3.0, 8.0])]
    *_, last = script().table.lines({"measured": measured})
    assert last == "|  | truerank | 1.00 | 3.00 | 0.75 | 1.00 | 10 |  |"
