"""The queries that a metric serves worst, and what neighbours refuses."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from tests.refusals import refused
from truerank.core.registry import display_name


def clusters() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.append(np.repeat(np.arange(10), 4), 10)  # the last one is alone
    return rng.standard_normal((11, 6))[y] + rng.standard_normal((41, 6)), y


@pytest.mark.parametrize("metric", ["map@r", "mrr"])
def test_the_worst_queries_come_first(metric: str) -> None:
    x, y = clusters()
    values = truerank.evaluate(x, y, metrics=metric)[metric].per_query.lower
    found = truerank.neighbors(x, y, worst=7, metric=metric, k=3)
    order = sorted(range(40), key=lambda row: (values[row], row))
    assert [one.query for one in found] == order[:7]
    assert [one.score for one in found] == values[order[:7]].tolist()
    assert found.metric == metric
    assert f"({display_name(metric)} {100 * values[order[0]]:.2f} %)" in str(found)


def test_a_query_without_a_mate_is_not_served_badly() -> None:
    x, y = clusters()
    assert 40 not in [one.query for one in truerank.neighbors(x, y, worst=100)]


def test_progress_is_told_while_the_worst_are_looked_for() -> None:
    x, y = clusters()
    told: list[tuple[int, int]] = []
    truerank.neighbors(x, y, worst=1, progress=lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] == told[-1][1]


@pytest.mark.parametrize("options", [{}, {"queries": 0, "worst": 1}])
def test_which_queries_must_be_said_once(options: dict[str, int]) -> None:
    x, y = clusters()
    with refused("no queries are chosen: pass queries or worst, one of the two."):
        truerank.neighbors(x, y, **options)


@pytest.mark.parametrize("metric", ["auc", "tau_max", "nmi"])
def test_metrics_without_a_value_for_each_query(metric: str) -> None:
    x, y = clusters()
    with refused(f"{metric} has no value for each query to choose the worst by; try map@r."):
        truerank.neighbors(x, y, worst=1, metric=metric)


def test_bad_arguments() -> None:
    x, y = clusters()
    with refused("The 'worst' parameter must be an int >= 1. Got 0 instead."):
        truerank.neighbors(x, y, worst=0)
    with refused("embeddings have 41 rows but there are 40 labels"):
        truerank.neighbors(x, y[:40], queries=0)
    with refused("The 'threads' parameter must be an int >= 1"):
        truerank.neighbors(x, y, queries=0, threads=0)
    with refused("The 'progress' parameter must be True, None, or called as progress(done, total)"):
        truerank.neighbors(x, y, worst=1, progress=3)
