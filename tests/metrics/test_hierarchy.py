"""Hierarchical metrics: what is claimed of their ties, values by hand, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.metrics.trees import POINTS, SLOW, TREE, bits, cases, metrics_of
from tests.oracles import hierarchy, ranking
from tests.quiet import evaluate
from tests.rounding import ulps
from truerank.engine import runner


@st.composite
def ranked_lists(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """The number of levels, and items as (distance, level), some of them tied and one relevant."""
    depth = draw(st.integers(1, 3))
    item = st.tuples(st.integers(0, 2), st.integers(0, depth))
    items = draw(
        st.lists(item, min_size=1, max_size=6).filter(lambda found: any(v for _, v in found))
    )
    return depth, [d for d, _ in items], [v for _, v in items]


def by_worth(distances: Sequence[int], levels: Sequence[int], worth: Any) -> hierarchy.Order:
    return tuple(
        v for _, v in sorted(zip(distances, levels, strict=True), key=lambda i: (i[0], worth(i[1])))
    )


@pytest.mark.thorough
@settings(max_examples=10_000 if SLOW else 200)
@given(ranked_lists())
def test_the_bounds_put_what_is_worth_most_last_or_first(
    drawn: tuple[int, list[int], list[int]],
) -> None:
    depth, distances, levels = drawn
    relevance = hierarchy.level_relevance(levels, depth)
    worths = {
        "asi": lambda v: v,
        "ndcg": lambda v: v,
        "ndcg@2": lambda v: v,
        "sum_wap": lambda v: v,
        "h_ap": lambda v: relevance[v],
    }
    for metric, worth in worths.items():
        measure = hierarchy.definition(metric, depth)
        true = hierarchy.triple(metric, depth, distances, levels)
        assert true is not None
        assert measure(by_worth(distances, levels, worth)) == true[0], metric
        assert measure(by_worth(distances, levels, lambda v, w=worth: -w(v))) == true[2], metric


@pytest.mark.thorough
@settings(max_examples=10_000 if SLOW else 200)
@given(ranked_lists())
def test_h_ap_is_a_weighted_mean_of_average_precisions(
    drawn: tuple[int, list[int], list[int]],
) -> None:
    """The decomposition, with its minimum, mean and maximum."""
    depth, distances, levels = drawn
    relevance = [hierarchy.level_relevance(levels, depth)[v] for v in levels]
    parts, before = [], Fraction(0)
    for value in sorted(set(relevance) - {0}):
        at_least = [r >= value for r in relevance]
        weight = (value - before) * sum(at_least)
        parts.append((weight, ranking.triple("map", distances, at_least)))
        before = value
    total = sum(weight for weight, _ in parts)
    assert hierarchy.triple("h_ap", depth, distances, levels) == tuple(
        sum(weight * precision[bound] for weight, precision in parts) / total for bound in range(3)
    )


# --- golden values --------------------------------------------------------------------------------


def one_query(
    levels: Sequence[int], depth: int, metrics: Sequence[str], distances: Sequence[float] = ()
) -> truerank.Result:
    """One query whose gallery shows these levels, in this order unless distances are given."""
    return evaluate(
        np.array([distances or np.arange(len(levels))], float),
        [["same"] * depth],
        gallery_labels=[["same"] * v + [f"other {v}"] * (depth - v) for v in levels],
        distance="precomputed",
        metrics=list(metrics),
    )


@pytest.mark.parametrize(
    ("levels", "value"),
    [
        ([2] * 10 + [1] * 2, 0.825758),  # coarse items are worth more: two share what ten share
        ([1] * 2 + [2] * 10, 1.0),
        ([2, 2, 2, 2, 1, 1], 1.0),
    ],
)
def test_h_ap_of_short_lists(levels: list[int], value: float) -> None:
    assert float(hierarchy.h_ap(tuple(levels), 2)) == pytest.approx(value, abs=5e-7)
    score = one_query(levels, 2, ["h_ap"])["h_ap"]
    assert score.lower == score.expected == score.upper == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize(
    ("before", "hierarchical_rank"), [(2, Fraction(5, 3)), (1, Fraction(4, 3))]
)
def test_severity_of_an_inversion(before: int, hierarchical_rank: Fraction) -> None:
    """Fig. 3 of HAPPIER: what a coarser item costs that stands before a mate; there rel is l/L."""
    relevances = [Fraction(before, 3), Fraction(1)]
    assert hierarchy.hierarchical_rank(relevances, 1) == hierarchical_rank
    exact = (relevances[0] + hierarchical_rank / 2) / sum(relevances)
    for metric in ("h_ap@rel=1:2:3", "h_ap@rel=0.5:1:1.5"):
        assert one_query([before, 3], 3, [metric])[metric].value == float(exact)


def test_ndcg_and_asi_by_hand() -> None:
    result = one_query([1, 0, 2], 2, ["ndcg", "ndcg@1", "ndcg@2", "ndcg@gain=linear", "asi"])
    ideal = 3 + 1 / math.log2(3)
    assert result["ndcg"].value == pytest.approx((1 + 3 / 2) / ideal, rel=1e-15)
    assert result["ndcg@1"].value == pytest.approx(1 / 3, rel=1e-15)
    assert result["ndcg@2"].value == pytest.approx(1 / ideal, rel=1e-15)
    linear = (1 + 2 / 2) / (2 + 1 / math.log2(3))
    assert result["ndcg@gain=linear"].value == pytest.approx(linear, rel=1e-15)
    assert result["asi"].value == 0.25  # nothing of {2} at depth 1, half of {2, 1} at depth 2


def test_coinciding_relevances_are_one_level_of_worth() -> None:
    """1/2 shared by one item and 1 shared by two: all three are worth the same, in any order."""
    for levels in ([1, 2, 2, 0], [2, 1, 2, 0], [2, 2, 1, 0]):
        assert one_query(levels, 2, ["h_ap"])["h_ap"].value == 1.0
    tied = one_query([1, 2, 2, 0], 2, ["h_ap"], [0.5, 0.5, 0.5, 0.5])["h_ap"]
    exact = ranking.triple("map", [0] * 4, [True, True, True, False])
    assert (tied.lower, tied.expected, tied.upper) == tuple(map(float, exact))


def test_everything_tied() -> None:
    """A larger gallery that says nothing, by linearity of the expectation in each definition."""
    sizes = {3: 20, 2: 100, 1: 30, 0: 200}
    levels = [v for v, size in sizes.items() for _ in range(size)]
    items, positives = len(levels), sum(v > 0 for v in levels)
    result = one_query(levels, 3, ["h_ap", "ndcg", "asi"], [1.0] * items)

    relevance = hierarchy.level_relevance(levels, 3)
    # Item k stands at each rank equally often, and each other item before it in (rank - 1) of
    # (items - 1) cases.
    inverse = sum(Fraction(1, rank) for rank in range(1, items + 1))
    total = Fraction(0)
    for level, size in sizes.items():
        others = sum(n * min(relevance[level], relevance[v]) for v, n in sizes.items())
        others -= relevance[level]
        share = Fraction(items) - inverse  # the sum over ranks of (rank - 1) / rank
        total += size * (relevance[level] * inverse + others * share / (items - 1)) / items
    h_ap = total / sum(size * relevance[v] for v, size in sizes.items())
    assert ulps(result["h_ap"].expected, h_ap) <= 2

    gain = Fraction(sum(size * (2**v - 1) for v, size in sizes.items()), items)
    everywhere = sum(hierarchy.discount(rank) for rank in range(1, items + 1))
    ideal = sum((2**v - 1) * hierarchy.discount(rank) for rank, v in enumerate(levels, start=1))
    assert ulps(result["ndcg"].expected, gain * everywhere / ideal) <= 2

    asi = Fraction(0)
    for n in range(1, positives + 1):
        for v in (1, 2, 3):
            most, size = levels[:n].count(v), sizes[v]
            for found in range(min(n, size) + 1):
                ways = math.comb(size, found) * math.comb(items - size, n - found)
                asi += Fraction(min(found, most) * ways, n * math.comb(items, n))
    assert ulps(result["asi"].expected, asi / positives) <= 2


def test_longer_lists_without_ties() -> None:
    """Against the double loop of Eq. 2 and 3, and the counting of ASI and NDCG, in floats."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, (150, 3)).astype(str)
    x = generator.standard_normal((150, 8))
    result = evaluate(x, labels, metrics=["h_ap", "asi", "ndcg"])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for q in range(0, 150, 10):
        order = [g for g in np.argsort(-unit @ unit[q]) if g != q]
        levels = tuple(hierarchy.level(hierarchy.agreement(labels[q], labels[g])) for g in order)
        for name in ("h_ap", "asi", "ndcg"):
            exact = hierarchy.definition(name, 3)(levels)
            assert ulps(result[name].per_query.lower[q], exact) <= 4, (name, q)


# --- one engine, however it works -----------------------------------------------------------------


def test_the_same_bits_on_every_path_with_many_ties() -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(-1, 2, (60, 3)).astype(float)
    fine = generator.integers(0, 12, 60)
    labels = np.stack([fine // 6, fine // 3, fine], axis=1)
    options = {"query_groups": generator.integers(0, 3, 60), "query_ids": np.arange(60) // 2}
    metrics = [*metrics_of(3), "map@level=mean", "asi@level=mean"]
    expected = None
    ways = [("auto", 0.0), ("auto", 0.05), ("auto", 2.0), ("reference", 0.05)]  # it sorts all
    for device, share in ways:
        for tiles in ({}, {"query_rows": 7, "gallery_rows": 5, "mates": 128}):
            with truerank.engine.settings(sort_share=share, **tiles):
                found = bits(evaluate(x, labels, **options, device=device, metrics=metrics))
            expected = expected or found
            assert found == expected, (device, share, tiles)


# --- relevances that leave nothing, or more than a double holds -----------------------------------


@pytest.mark.parametrize("metric", ["h_ap@rel=0:1", "sum_wap@weights=0:1", "h_ap@alpha=100"])
def test_no_query_spoils_the_mean(metric: str) -> None:
    """The second query has coarse mates alone, which these relevances may call worth nothing."""
    distances = np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3]])
    gallery = [["a", "x"], ["a", "z"], ["b", "x"]]
    options = {"gallery_labels": gallery, "distance": "precomputed", "metrics": [metric]}
    score = evaluate(distances, [["a", "x"], ["a", "y"]], **options)[metric]
    values = score.per_query.lower
    assert values[0] == 1.0
    assert score.n == np.count_nonzero(~np.isnan(values))
    assert score.value == np.nanmean(values) == 1.0


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 60)
@given(data=st.data())
def test_share_of_queries_with_relevances_that_are_not_monotone(data: st.DataObject) -> None:
    depth = data.draw(st.integers(2, 3))
    case = data.draw(cases(depth, "precomputed"))
    share = case.evaluate(metrics=["h_ap"]).provenance["hierarchy"]["non_monotone_share"]
    counted = [levels for levels in case.levels if any(levels)]
    if counted:
        strange = sum(not hierarchy.is_monotone(levels, depth) for levels in counted)
        assert share == pytest.approx(strange / len(counted), rel=1e-15)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metric",
    [
        "map@level=4",
        "map@level=0",
        "map@level=-1",
        "map@r,level=family",
        "asi@level=4",
        "h_ap@alpha=0",
        "h_ap@alpha=-1",
        "h_ap@alpha=nan",
        "h_ap@alpha=inf",
        "h_ap@alpha=steep",
        "h_ap@rel=1:2",
        "h_ap@rel=1:2:3:4",
        "h_ap@rel=1:2:-3",
        "h_ap@rel=1:2:nan",
        "h_ap@rel=0:0:0",
        "sum_wap@weights=1:2",
        "sum_wap@weights=1:2:3:4",
        "sum_wap@weights=1:-2:3",
        "sum_wap@weights=0:0:0",
        "sum_wap@weights=1::3",
        "ndcg@gain=cubic",
        "ndcg@0",
        "asi@5",
    ],
)
def test_wrong_metrics_are_refused_in_a_sentence(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before any distance is computed."""
    monkeypatch.setattr(runner, "tie_groups", None)
    with pytest.raises(truerank.InputError) as refused:
        evaluate(POINTS, TREE, metrics=[metric])
    message = str(refused.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
