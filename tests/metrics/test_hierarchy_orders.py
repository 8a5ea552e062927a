"""Hierarchical metrics against their definitions, over every order that the exact scores allow."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.metrics.trees import BOUNDS, SINGLE, SLOW, Case, as_tree, at_level, bits, cases
from tests.oracles import hierarchy, ranking
from tests.quiet import evaluate
from tests.rounding import ulps

ENGINES: dict[str, dict[str, Any]] = {
    "rows sorted": {"sort_share": 0.0},
    "counted": {"sort_share": 2.0},
    "reference": {},
}
TWO_DISTANCES = st.sampled_from(["precomputed", "cosine"])


# --- the truth about a task -----------------------------------------------------------------------


def truth(case: Case, metric: str) -> list[ranking.Triple | None]:
    """The triple of each query; None for those that do not count."""
    asked, depth, every_levels = case.question(metric)
    found = [
        hierarchy.triple(asked, depth, distances, levels)
        for distances, levels in zip(case.distances, every_levels, strict=True)
    ]
    if case.options.get("unmated") == "zero":
        return [triple or (Fraction(0),) * 3 for triple in found]
    return found


def mean(values: Sequence[Fraction | None]) -> Fraction | None:
    counted = [value for value in values if value is not None]
    return sum(counted, Fraction(0)) / len(counted) if counted else None


def check(case: Case, other: str) -> None:
    """Every metric of every query; and the same bits by another path through the engine."""
    result = case.evaluate(metrics=case.metrics)
    for metric in case.metrics:
        check_metric(case, metric, result[metric])
    with truerank.engine.settings(**ENGINES[other]):
        device = "reference" if other == "reference" else "auto"
        assert bits(case.evaluate(metrics=case.metrics, device=device)) == bits(result), other


def check_metric(case: Case, metric: str, score: truerank.Score) -> None:
    true, levels = truth(case, metric), case.question(metric)[2]
    assert score.per_query is not None
    for q, exact in enumerate(true):
        actual = [float(getattr(score.per_query, bound)[q]) for bound in BOUNDS]
        if exact is None:
            assert all(map(math.isnan, actual)), f"{metric}, query {q} should not count: {actual}"
            continue
        said = f"{metric}, query {q}: {actual} is not {[float(value) for value in exact]}"
        assert all(ulps(a, e) <= 2 for a, e in zip(actual, exact, strict=True)), said
        assert actual[0] <= actual[1] <= actual[2], said
        if not ambiguous(case.distances[q], levels[q]):
            assert actual[0] == actual[1] == actual[2], said

    counted = [triple for triple in true if triple is not None]
    assert score.n == len(counted), metric
    if not counted:
        assert math.isnan(score.value), metric
        assert score.reason, metric
        return
    assert score.reason is None, metric
    assert score.value == score.lower <= score.expected <= score.upper, metric
    for position, bound in enumerate(BOUNDS):
        check_mean(f"{metric}, {bound}", getattr(score, bound), [t[position] for t in counted])
    asked, depth, every_levels = case.question(metric)
    chances = [hierarchy.chance(asked, depth, levels) for levels in every_levels]
    if case.options.get("unmated") == "zero":
        chances = [value or Fraction(0) for value in chances]
    assert score.chance is not None, metric
    check_mean(f"{metric}, chance", score.chance, chances)


def check_mean(name: str, actual: float, values: Sequence[Fraction | None]) -> None:
    exact = mean(values)
    assert exact is not None
    assert ulps(actual, exact) <= 2, f"{name}: {actual} is not {float(exact)}"


def ambiguous(distances: Sequence[Any], levels: Sequence[int]) -> bool:
    """Whether items of different levels are tied."""
    found: defaultdict[Any, set[int]] = defaultdict(set)
    for distance, level in zip(distances, levels, strict=True):
        found[distance].add(level)
    return any(len(group) > 1 for group in found.values())


# --- every order of tiny random tasks -------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("depth", [1, 2, 3])
@settings(max_examples=1_600 if SLOW else 70)
@given(data=st.data())
def test_every_order(depth: int, data: st.DataObject) -> None:
    case = data.draw(cases(depth, data.draw(TWO_DISTANCES)))
    check(case, data.draw(st.sampled_from(sorted(ENGINES))))


@pytest.mark.thorough
@settings(max_examples=1_600 if SLOW else 70)
@given(data=st.data())
def test_every_order_of_graded_items(data: st.DataObject) -> None:
    case = data.draw(cases(hierarchy.GRADED, data.draw(TWO_DISTANCES)))
    check(case, data.draw(st.sampled_from(sorted(ENGINES))))


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_a_level_is_the_task_with_that_column_alone(data: st.DataObject) -> None:
    """Bit for bit, once the same items are removed: junk always goes by the finest label."""
    case = data.draw(cases(3, "precomputed"))
    assert case.labels is not None
    removed = np.ones(
        (len(case.labels), len(case.options.get("gallery_labels", case.labels))), bool
    )
    for q, items in enumerate(case.items):
        removed[q, items] = False
    common = {"distance": "precomputed", "unmated": case.options["unmated"], "junk": removed}
    result = case.evaluate(metrics=[at_level(name, v) for name in SINGLE for v in (1, 2, 3)])
    for level in (1, 2, 3):
        sides: dict[str, Any] = {}
        if "gallery_labels" in case.options:
            sides["gallery_labels"] = [path[level - 1] for path in case.options["gallery_labels"]]
        alone = evaluate(
            case.embeddings,
            [path[level - 1] for path in case.labels],
            **sides,
            **common,
            metrics=SINGLE,
        )
        expected = bits(alone)
        actual = bits(result)
        for name in SINGLE:
            there = str(result[at_level(name, level)].metric)
            assert actual[there] == expected[name], f"{name} at level {level}"


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_the_mean_over_levels(data: st.DataObject) -> None:
    """Each level's score is a mean over the queries that have a mate there; then the plain mean."""
    depth = data.draw(st.integers(1, 3))
    case = data.draw(cases(depth, "precomputed"))
    names = ["map", "map@r", "hit@1", "asi"]
    levels = range(1, depth + 1)
    result = case.evaluate(metrics=[at_level(n, v) for n in names for v in [*levels, "mean"]])
    for name in names:
        score = result[at_level(name, "mean")]
        true = [truth(case, at_level(name, v)) for v in levels]
        if not all(any(triple is not None for triple in level) for level in true):
            assert math.isnan(score.value)
            assert score.reason
            continue
        assert score.value == score.lower <= score.expected <= score.upper
        for position, bound in enumerate(BOUNDS):
            exact = [mean([t and t[position] for t in level]) for level in true]
            check_mean(f"{name}, {bound}", getattr(score, bound), exact)
            known = [[t[position] for t in row if t is not None] for row in zip(*true, strict=True)]
            each = [float(sum(row) / len(row)) if row else math.nan for row in known]
            values = getattr(score.per_query, bound)
            assert values.tolist() == pytest.approx(each, nan_ok=True, rel=1e-14)
            if all(len(row) in (0, depth) for row in known):  # else some count at fewer levels
                assert np.nanmean(values) == pytest.approx(getattr(score, bound), rel=1e-14)


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_the_mean_over_levels_of_some_queries(data: st.DataObject) -> None:
    """A part of a result is scored as the whole is: a mean at each level, then the plain mean."""
    depth = data.draw(st.integers(1, 3))
    case = data.draw(cases(depth, "precomputed"))
    name = "map@level=mean"
    result = case.evaluate(metrics=[name])
    queries = len(case.labels)
    half = data.draw(st.lists(st.booleans(), min_size=queries, max_size=queries))
    true = [truth(case, f"map@level={v}") for v in range(1, depth + 1)]
    for whole in (result, truerank.Result.from_dict(result.to_dict())):
        for chosen, part in whole.by(half).items():
            some = [
                [t for t, h in zip(row, half, strict=True) if t and h == chosen] for row in true
            ]
            if not all(some):
                assert math.isnan(part[name].value)
                assert part[name].reason
                continue
            for position, bound in enumerate(BOUNDS):
                exact = [mean([t[position] for t in level]) for level in some]
                check_mean(bound, getattr(part[name], bound), exact)
        [everybody] = whole.by([0] * queries).values()
        assert everybody[name].value == pytest.approx(result[name].value, rel=1e-15, nan_ok=True)


# --- what the metrics have to do with each other --------------------------------------------------


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_one_level_is_average_precision(data: st.DataObject) -> None:
    case = data.draw(cases(1, "precomputed"))
    names = ["map", "h_ap", "h_ap@alpha=3", "h_ap@rel=7", "sum_wap", "sum_wap@weights=5"]
    result = case.evaluate(metrics=[*names, "map@level=1", "map@level=mean"])
    for name in [*names, "map@level=1"]:
        for bound in BOUNDS:
            np.testing.assert_array_equal(
                getattr(result[name].per_query, bound), getattr(result["map"].per_query, bound)
            )
    assert result["map@level=mean"].lower == pytest.approx(result["map"].lower, nan_ok=True)


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_sum_wap_is_the_weighted_mean_of_the_levels(data: st.DataObject) -> None:
    """For each query, over the levels at which something is left for it."""
    depth = data.draw(st.integers(2, 3))
    case = as_tree(data.draw(cases(depth, "precomputed")))
    case.options["unmated"] = "report"
    weights = data.draw(st.lists(st.integers(1, 9), min_size=depth, max_size=depth))
    name = "sum_wap@weights=" + ":".join(map(str, weights))
    levels = [f"map@level={v}" for v in range(1, depth + 1)]
    result = case.evaluate(metrics=[name, *levels])
    for bound in BOUNDS:
        at = np.array([getattr(result[level].per_query, bound) for level in levels])
        weight = np.where(np.isnan(at), 0, np.array(weights)[:, None])
        with np.errstate(invalid="ignore"):
            expected = np.nansum(at * weight, axis=0) / weight.sum(axis=0)
        np.testing.assert_allclose(
            getattr(result[name].per_query, bound), expected, rtol=1e-15, atol=0
        )
