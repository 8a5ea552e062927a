"""Inputs on which other tools report something else (docs/results/other-tools.md).

Each right answer is a literal, worked out in the comment beside it. Only truerank runs here:
what the tools themselves give is scripts/what_other_tools_report.py's business.
"""

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import truerank

ROUNDING = 1e-15

FIVE = [0.9, 0.8, 0.7, 0.6, 0.5]
ON_A_LINE = [[0.0], [1.0], [4.0], [10.0]]


def evaluate(*arguments: Any, **options: Any) -> truerank.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return truerank.evaluate(*arguments, **options)


def of_scores(scores: Sequence[float], relevance: Sequence[int], metric: str) -> truerank.Score:
    return evaluate(
        np.array([scores]),
        relevance=np.array([relevance], dtype=bool),
        distance="similarity",
        metrics=[metric],
    )[metric]


def of_points(points: Any, labels: Any, metric: str, **options: Any) -> truerank.Score:
    return evaluate(np.array(points), labels, distance="euclidean", metrics=[metric], **options)[
        metric
    ]


def assert_triple(score: truerank.Score, lower: float, expected: float, upper: float) -> None:
    triple = (score.lower, score.expected, score.upper)
    assert triple == pytest.approx((lower, expected, upper), rel=0, abs=ROUNDING)
    assert score.value == score.lower


# --- scores below zero


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("map", 0.8055555555555556),  # mates at ranks 1, 3, 4: (1/1 + 2/3 + 3/4)/3 = 29/36
        ("recall@4", 1.0),  # all three mates are among the first four
        ("mrr", 1.0),  # the first item is a mate
    ],
)
def test_scores_below_zero_are_ranked_like_any_other(metric: str, value: float) -> None:
    assert_triple(of_scores([0.6, 0.2, -0.1, -0.3], [1, 0, 1, 1], metric), value, value, value)


def test_shifting_all_scores_below_zero_changes_nothing() -> None:
    # The pattern 1 0 1 1 again, now with every score negative: 29/36.
    value = 0.8055555555555556
    assert_triple(of_scores([-1.0, -2.0, -3.0, -4.0], [1, 0, 1, 1], "map"), value, value, value)


# --- the divisor of AP@k


@pytest.mark.parametrize(
    ("relevance", "metric", "value"),
    [
        ([1, 0, 1, 1, 1], "map@2", 0.25),  # one of R = 4 found, at rank 1: (1/1)/4
        ([1, 0, 1, 1, 1], "map@2,divisor=min", 0.5),  # (1/1)/min(4, 2)
        ([1, 1, 1, 1, 1], "map@1", 0.2),  # one of R = 5 found, at rank 1: (1/1)/5
        ([1, 0, 0, 0, 1], "map@4", 0.5),  # one of R = 2 found, at rank 1: (1/1)/2
        ([1, 0, 0, 1, 0], "map@4", 0.75),  # both found, at ranks 1 and 4: (1/1 + 2/4)/2
    ],
)
def test_the_divisor_of_a_cut_list(relevance: list[int], metric: str, value: float) -> None:
    assert_triple(of_scores(FIVE, relevance, metric), value, value, value)


def test_finding_one_more_mate_never_lowers_ap_at_k() -> None:
    for rest in itertools.product((0, 1), repeat=3):
        missed = of_scores(FIVE, [*rest, 0, 1], "map@4")
        found = of_scores(FIVE, [*rest, 1, 0], "map@4")
        assert found.value > missed.value


# --- constant scores and embeddings: the order of the input must not matter

ARRANGEMENTS = {
    "mates first": [1] * 10 + [0] * 90,
    "mates last": [0] * 90 + [1] * 10,
    "mates spread": [int(i % 10 == 0) for i in range(100)],
}


@pytest.mark.parametrize("relevance", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_a_constant_score(relevance: list[int]) -> None:
    # 100 items, 10 mates. Last: ranks 91..100, sum of i/(90 + i) over i = 1..10, over 10.
    # Mean: a place p holds a mate with probability 1/10, and then (p - 1) * 9/99 mates on average
    # before it: sum of (1 + (p - 1)/11)/p over p = 1..100, over 100 = (100/11 + 10/11 H_100)/100.
    lower = 0.05673776688005764
    expected = 0.13806706834217836
    assert_triple(of_scores([0.5] * 100, relevance, "map"), lower, expected, 1.0)


def test_the_mean_over_all_orders_of_a_constant_score() -> None:
    # Six items, two mates: the 15 pairs of ranks a < b, each with AP (1/a + 2/b)/2.
    pairs = list(itertools.combinations(range(1, 7), 2))
    values = [(Fraction(1, a) + Fraction(2, b)) / 2 for a, b in pairs]
    score = of_scores([0.5] * 6, [0, 1, 0, 0, 1, 0], "map")
    assert_triple(
        score, float(min(values)), float(sum(values, Fraction(0)) / len(values)), float(max(values))
    )


@pytest.mark.parametrize("mate", range(4))
def test_the_best_of_equal_scores(mate: int) -> None:
    # The mate comes first in one order of four, whatever its index.
    relevance = [int(i == mate) for i in range(4)]
    assert_triple(of_scores([0.25] * 4, relevance, "hit@1"), 0.0, 0.25, 1.0)


def shuffled(labels: list[int]) -> list[int]:
    random.Random(0).shuffle(labels)
    return labels


ROW_ORDERS = {
    "class by class": [row // 100 for row in range(1000)],
    "classes in turn": [row % 10 for row in range(1000)],
    "shuffled": shuffled([row // 100 for row in range(1000)]),
}


@pytest.mark.parametrize("labels", ROW_ORDERS.values(), ids=ROW_ORDERS)
@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_embeddings_that_are_all_zero(labels: list[int], distance: str) -> None:
    # Each query ties with 999 others, 99 of them mates (all classes alike, so the mean over queries
    # is one query's value). A mate at place p, of probability 99/999, has (p - 1) * 98/998 mates
    # before it on average.
    # map: last = sum of i/(900 + i) over i = 1..99, over 99;
    #      mean = sum of (1 + (p - 1) * 98/998)/p over p = 1..999, over 999.
    # map@r: last = 0, no mate before rank 901; mean = the same sum over p = 1..99, over 999.
    result = evaluate(np.zeros((1000, 2)), labels, distance=distance, metrics=["map", "map@r"])
    assert_triple(result["map"], 0.05177291227644108, 0.10495267188480596, 1.0)
    assert_triple(result["map@r"], 0.0, 0.01440482543252236, 1.0)


# --- ties and near ties


def test_tied_mates_behind_an_irrelevant_item_leave_nothing_open() -> None:
    # Ranks 2 and 3 in both orders: (1/2 + 2/3)/2 = 7/12. (Precision at the tie's end, for both
    # mates, would be 2/3.)
    value = 0.5833333333333334
    assert_triple(of_scores([0.9, 0.5, 0.5], [0, 1, 1], "map"), value, value, value)


@pytest.mark.parametrize("mate", range(3))
def test_scores_closer_than_float32_are_told_apart(mate: int) -> None:
    # 1 + 2^-30 > 1 in float64; in float32 the two are equal.
    scores = [1.0 + (i == mate) * 2.0**-30 for i in range(3)]
    relevance = [int(i == mate) for i in range(3)]
    assert_triple(of_scores(scores, relevance, "map"), 1.0, 1.0, 1.0)


# --- labels, metrics on their own, and what counts as the query itself


@pytest.mark.parametrize("metric", ["precision@1", "map@r", "map"])
def test_labels_beyond_float32_stay_distinct(metric: str) -> None:
    # 2^24 and 2^24 + 1 are equal in float32; as labels they differ, so that no query has a mate.
    score = of_points(ON_A_LINE, np.arange(2**24, 2**24 + 4), metric)
    assert math.isnan(score.value)
    assert score.n == 0
    assert score.reason is not None
    assert "no query has a relevant item" in score.reason


def test_labels_beyond_float64_stay_distinct() -> None:
    # 2^53 and 2^53 + 1 are equal in float64. Row 0's mate is row 2, at rank 2, and the reverse;
    # rows 1 and 3 have none: (1/2 + 1/2)/2.
    labels = np.array([2**53, 2**53 + 1, 2**53, 2**53 + 2])
    score = of_points(ON_A_LINE, labels, "map")
    assert_triple(score, 0.5, 0.5, 0.5)
    assert score.n == 2


def test_the_reciprocal_rank_needs_no_other_metric() -> None:
    # Points 0, 1, 4, 10, classes {0, 1} and {4, 10}: from 4 the others are 3, 4 and 6 away, its
    # mate the last of them; every other query has its mate first: (1 + 1 + 1/3 + 1)/4 = 5/6.
    value = 0.8333333333333334
    assert_triple(of_points(ON_A_LINE, [0, 0, 1, 1], "mrr"), value, value, value)


def test_a_duplicate_is_not_taken_for_the_query() -> None:
    # Points 0, 0, 2, 3, labels 0 1 0 1. Mates at rank 2 (behind a duplicate of the other label),
    # at rank 3, and, from 2 and from 3, at 2 or 3: the two points at 0 tie. No first place.
    # AP: (1/2 + 1/3 + 1/3 + 1/3)/4 = 3/8 to (1/2 + 1/3 + 1/2 + 1/2)/4 = 11/24, mean 5/12.
    points, labels = [[0.0], [0.0], [2.0], [3.0]], [0, 1, 0, 1]
    assert_triple(of_points(points, labels, "precision@1"), 0.0, 0.0, 0.0)
    assert_triple(of_points(points, labels, "map"), 0.375, 0.4166666666666667, 0.4583333333333333)


# --- the full mAP without the full matrix


def test_the_full_map_never_holds_the_matrix_of_distances() -> None:
    rows = 8000
    embeddings = np.random.default_rng(0).standard_normal((rows, 16), dtype=np.float32)
    tracemalloc.start()
    try:
        of_points(embeddings, np.arange(rows) // 10, "map", threads=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < rows * rows * 8  # one float64 for every pair
