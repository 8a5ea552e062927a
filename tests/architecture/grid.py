"""Pairs of tests/test_invariance.py: which metrics and curves it compares, on which paths.

`python -m tests.architecture.grid` writes them into grid.json: every metric is compared on every
path, but for those in "not compared". Nothing is evaluated.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.test_invariance import compared, paths

GRID = Path(__file__).with_name("grid.json")

Pair = tuple[str, str]
"""A metric, or "curve" and its name, and a path: "task / transformation / distance"."""


def pairs() -> set[Pair]:
    """All that the invariance suite compares."""
    return {
        (metric, " / ".join((task, transformation, distance)))
        for task, transformation, distance in paths()
        for metric in compared(distance, transformation)
    }


def folded(found: set[Pair]) -> dict[str, Any]:
    """Some pairs as metrics, paths, and which paths are missing for which metrics."""
    metrics, every = {metric for metric, _ in found}, {path for _, path in found}
    without: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for metric in sorted(metrics):
        if missing := tuple(sorted(path for path in every if (metric, path) not in found)):
            without[missing].append(metric)
    return {
        "metrics": sorted(metrics),
        "paths": _by_distance(every),
        "not compared": [
            {"metrics": some, "paths": _by_distance(missing)}
            for missing, some in sorted(without.items(), key=lambda item: item[1])
        ],
    }


def unfolded(record: dict[str, Any]) -> set[Pair]:
    """The pairs again."""

    def product(part: dict[str, Any]) -> set[Pair]:
        return {
            (metric, f"{path} / {distance}")
            for metric in part["metrics"]
            for path, distances in part["paths"].items()
            for distance in distances.split()
        }

    return product(record).difference(*map(product, record["not compared"]))


def _by_distance(some: Iterable[str]) -> dict[str, str]:
    """The distances of each task and transformation, in one line."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(some):
        rest, distance = path.rsplit(" / ", 1)
        found[rest].append(distance)
    return {rest: " ".join(distances) for rest, distances in found.items()}


def stored() -> set[Pair]:
    """The pairs in grid.json."""
    return unfolded(json.loads(GRID.read_text(encoding="utf-8")))


if __name__ == "__main__":
    GRID.write_text(json.dumps(folded(pairs()), indent=1) + "\n", encoding="utf-8")
