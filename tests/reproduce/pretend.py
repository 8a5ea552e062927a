"""A finished benchmark that nobody trained: scores as they are given, in the place of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from studies.trained import PART, Finished

from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout
from truerank.benchmark.statistics import summarise
from truerank.core.jackknife import Replicates
from truerank.core.score import Score
from truerank.result.result import Result

FOLDS = 20
"""Of the test classes."""


class Pretended(Finished):
    """Results from given scores; whole results, with curves, are one and the same for all."""

    whole: Result

    def saved(self, method: str, seed: str, fold: int | None = None) -> Result:
        return self.whole

    def curves(self, method: str) -> list[list[list[float | None]]]:
        return [[[0, None, 0.1], [1, 2.0, 0.2], [2, 1.5, 0.25]]] * 2


def result(scores: Mapping[str, float], noise: float, provenance: Mapping[str, Any]) -> Result:
    """Scores with replicates; what classes do is the same for all models, and so cancels out."""
    away = np.random.default_rng(1).normal(size=FOLDS)
    found = {}
    for metric, value in scores.items():
        replicates = Replicates(tuple((value + noise * away / FOLDS).tolist()))
        found[metric] = Score(metric, value, value, value, value, n=9, replicates=replicates)
    return Result(found, provenance=dict(provenance))


def pretend(
    name: str,
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    config: Mapping[str, Any] | None = None,
    validation: Mapping[str, float] | None = None,
    noise: float = 0.01,
    whole: Result | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Pretended:
    """A benchmark with these scores: by method and metric, one for each seed."""
    seeds = len(next(iter(next(iter(scores.values())).values())))
    given: dict[str, Any] = {
        "data": {"name": name},
        "protocol": {"preset": "smoke", "trials": 1, "reruns": seeds},
        "methods": [{"name": method, "loss": "triplet"} for method in scores],
        **(config or {}),
    }
    rows = [
        {
            "method": method,
            "validation": {"score": (validation or {}).get(method, 0.5)},
            PART: {metric: summarise(list(values)) for metric, values in found.items()},
        }
        for method, found in scores.items()
    ]
    openings = {"count": 9, "second_looks": 0, "head": "0" * 64}
    table = {"rows": rows, "openings": openings}
    made = Pretended(name, BenchmarkConfig.of(given), Layout(Path("nowhere")), table)
    runs = {
        method: [
            result({metric: values[seed] for metric, values in found.items()}, noise, facts or {})
            for seed in range(seeds)
        ]
        for method, found in scores.items()
    }
    made.__dict__["runs"] = runs  # in the place of what is read from files
    made.__dict__["whole"] = whole
    return made
