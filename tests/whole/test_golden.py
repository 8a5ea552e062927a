"""Ranking metrics and their ties: numbers that papers print or that anyone can work out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import truerank
from tests import registered
from tests.oracles import ranking
from tests.quiet import evaluate

RANKING = [*registered.ranking(), "precision@5", "recall@5", "map@5"]


def one_query(
    distances: Sequence[float], relevant: Sequence[int], metrics: Sequence[str]
) -> truerank.Result:
    labels = ["mate" if r else "other" for r in relevant]
    return evaluate(
        np.array([distances]),
        ["mate"],
        gallery_labels=labels,
        distance="precomputed",
        metrics=list(metrics),
    )


def pattern(ranks: set[int], length: int = 7) -> list[int]:
    return [int(rank in ranks) for rank in range(1, length + 1)]


# --- Fig. 1 of Nicolaou et al., "Non-deterministic Behavior of Ranking-based Metrics when
# --- Evaluating Embeddings"; the paper truncates what it prints


@pytest.mark.parametrize(
    ("ranks", "value"),
    [
        ({1, 6}, 2 / 3),
        ({1, 2}, 1.0),
        ({1, 5}, 0.70),
        ({2, 7}, 0.392857),
        ({1, 7}, 0.642857),
        ({2, 5}, 0.45),
    ],
)
def test_average_precision_without_ties(ranks: set[int], value: float) -> None:
    relevant = pattern(ranks)
    score = one_query(range(1, 8), relevant, ["map"])["map"]
    assert score.lower == score.expected == score.upper == score.value == float(score)
    assert score.value == pytest.approx(value, abs=5e-7)
    assert [float(v) for v in ranking.triple("map", range(7), relevant)] == pytest.approx(
        [value] * 3, abs=5e-7
    )


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("second", [5, 6, 7])
def test_average_precision_with_ties(first: int, second: int) -> None:
    """Ranks 1 and 2 are tied, and 5, 6 and 7: the order inside a group means nothing."""
    distances, relevant = [0.1, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4], pattern({first, second})
    score = one_query(distances, relevant, ["map"])["map"]
    printed = pytest.approx((0.392857, 0.544841, 0.70), abs=5e-7)
    assert (score.lower, score.expected, score.upper) == printed
    assert tuple(map(float, ranking.triple("map", distances, relevant))) == printed
    assert score.value == score.lower


def test_map_at_r() -> None:
    result = one_query([0.1, 0.2, 0.3, 0.4], [1, 0, 1, 1], ["map@r", "r_precision", "map"])
    assert float(result["map@r"]) == pytest.approx(0.555556, abs=5e-7)
    assert float(result["r_precision"]) == pytest.approx(0.666667, abs=5e-7)
    assert float(result["map"]) == pytest.approx(0.805556, abs=5e-7)


def test_map_at_k_divides_by_r_and_not_by_what_was_found() -> None:
    result = one_query(
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 0, 0, 1, 1, 1], ["map@2", "map@2,divisor=min"]
    )
    assert float(result["map@2"]) == 0.25
    assert float(result["map@2,divisor=min"]) == 0.5


# --- the table of lists in the paper on open-set retrieval (GOM), its AP and INP columns

GOM_LISTS = {
    "I": ([0.10, 0.25, 0.35, 0.75, 0.85], "11100", 1.0, 1.0),
    "II": ([0.55, 0.65, 0.75, 0.85, 0.95], "11100", 1.0, 1.0),
    "III": ([0.25, 0.35, 0.40, 0.50, 0.80], "10110", 0.8056, 0.75),
    "IV": ([0.20, 0.35, 0.45, 0.55, 0.70], "11010", 0.9167, 0.75),
    "V": ([0.35, 0.55, 0.65, 0.75, 0.85], "00000", math.nan, math.nan),
    "VI": ([0.55, 0.75, 0.80, 0.85, 0.95], "00000", math.nan, math.nan),
}


def test_gom_lists() -> None:
    distances, patterns, precisions, penalties = zip(*GOM_LISTS.values(), strict=True)
    relevance = np.array([[mark == "1" for mark in marks] for marks in patterns])
    result = evaluate(
        np.array(distances),
        None,
        relevance=relevance,
        distance="precomputed",
        metrics=["map", "minp"],
    )
    np.testing.assert_allclose(result["map"].per_query.lower, precisions, atol=5e-5, rtol=0)
    np.testing.assert_allclose(result["minp"].per_query.lower, penalties, atol=5e-5, rtol=0)
    assert result["map"].n == result["minp"].n == 4
    assert float(result["minp"]) == 0.875


# --- embeddings that say nothing: ten classes of a hundred, all rows zero

ALL_ZERO = {
    "map": (0.051773, 0.104953, 1.0),
    "precision@1": (0.0, 0.099099, 1.0),
    "map@r": (0.0, 0.014405, 1.0),
    "mrr": (1 / 901, 0.254608, 1.0),
    "minp": (99 / 999, 0.100009, 1.0),
}


def all_zero(labels: np.ndarray, distance: str = "cosine") -> truerank.Result:
    return evaluate(np.zeros((1000, 4)), labels, distance=distance, metrics=list(ALL_ZERO))


def fields(result: truerank.Result) -> dict[str, tuple[float, ...]]:
    return {
        name: (s.value, s.lower, s.expected, s.upper, s.chance, s.n) for name, s in result.items()
    }


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "cityblock"])
def test_all_zero_embeddings(distance: str) -> None:
    result = all_zero(np.repeat(np.arange(10), 100), distance)
    for metric, printed in ALL_ZERO.items():
        score = result[metric]
        assert (score.lower, score.expected, score.upper) == pytest.approx(printed, abs=5e-7), (
            metric
        )
        assert score.chance == score.expected, metric


def test_all_zero_embeddings_in_any_row_order() -> None:
    sorted_by_class = np.repeat(np.arange(10), 100)
    orders = [
        sorted_by_class[::-1],
        np.tile(np.arange(10), 100),
        np.random.default_rng(0).permutation(sorted_by_class),
    ]
    expected = fields(all_zero(sorted_by_class))
    for labels in orders:
        assert fields(all_zero(labels)) == expected


def test_all_zero_embeddings_exactly() -> None:
    """999 items in random order, 99 of them relevant, in exact arithmetic."""
    items, mates = 999, 99
    first_order, second_order = (
        Fraction(mates, items),
        Fraction(mates * (mates - 1), items * (items - 1)),
    )
    average_precision = (
        sum(Fraction(1, i) * (first_order + (i - 1) * second_order) for i in range(1, items + 1))
        / mates
    )
    result = all_zero(np.repeat(np.arange(10), 100))
    assert result["map"].expected == pytest.approx(float(average_precision), rel=1e-15)
    assert result["precision@1"].expected == pytest.approx(99 / 999, rel=1e-15)
    lower = sum(Fraction(i, items - mates + i) for i in range(1, mates + 1)) / mates
    assert result["map"].lower == pytest.approx(float(lower), rel=1e-15)

    # The first relevant rank exceeds i with probability C(items - i, mates) / C(items, mates),
    # and the last one is at most i with probability C(i, mates) / C(items, mates).
    every = math.comb(items, mates)
    first = [Fraction(math.comb(items - i, mates), every) for i in range(items + 1)]
    last = [Fraction(math.comb(i, mates), every) for i in range(items + 1)]
    reciprocal = sum((first[i - 1] - first[i]) / i for i in range(1, items + 1))
    penalty = mates * sum((last[i] - last[i - 1]) / i for i in range(1, items + 1))
    assert result["mrr"].expected == pytest.approx(float(reciprocal), rel=1e-15)
    assert result["minp"].expected == pytest.approx(float(penalty), rel=1e-15)


def test_expectation_far_down_a_long_list() -> None:
    """A tie group behind many items: the form with harmonic numbers loses digits here."""
    before, size, inside = 200_000, 5_000, 7
    distances = np.concatenate([np.arange(before), np.full(size, before)]).astype("float64")
    relevant = np.zeros(before + size, dtype=int)
    relevant[before : before + inside] = 1
    score = one_query(distances, relevant.tolist(), ["map"])["map"]
    # Each term is floored to a multiple of 10^-30: 5,000 of those are far below a double.
    first_order, second_order = (
        Fraction(inside, size),
        Fraction(inside * (inside - 1), size * (size - 1)),
    )
    unit = 10**30
    total = sum(
        int((first_order + (p - 1) * second_order) / (before + p) * unit)
        for p in range(1, size + 1)
    )
    assert score.expected == pytest.approx(float(Fraction(total, unit * inside)), rel=4e-16)


# --- chance: what scores that say nothing would get


def imbalanced_task() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.choice(5, size=3000, p=[0.05, 0.1, 0.15, 0.3, 0.4]), np.repeat(
        np.arange(6), [1, 2, 4, 8, 12, 3]
    )


@pytest.mark.parametrize("metric", RANKING)
def test_chance_is_the_mean_over_random_scores(metric: str) -> None:
    """The chance level and the scores of random distances agree with those of shuffled lists."""
    labels, gallery_labels = imbalanced_task()
    rng = np.random.default_rng(11)
    score = evaluate(
        rng.random((len(labels), len(gallery_labels))),
        labels,
        gallery_labels=gallery_labels,
        distance="precomputed",
        metrics=[metric],
    )[metric]
    shuffled = np.array(
        [
            float(
                ranking.definition(metric)(tuple((rng.permutation(gallery_labels) == q).tolist()))
            )
            for q in labels
        ]
    )
    noise = shuffled.std() / math.sqrt(len(shuffled))
    assert abs(score.chance - shuffled.mean()) < 5 * noise
    assert abs(score.chance - score.value) < 5 * noise


@pytest.mark.parametrize("metric", RANKING)
def test_chance_is_the_expectation_of_one_tie_group(metric: str) -> None:
    """Chance depends on who is relevant to whom and on nothing else."""
    labels, gallery_labels = imbalanced_task()
    tied = evaluate(
        np.zeros((len(labels), len(gallery_labels))),
        labels,
        gallery_labels=gallery_labels,
        distance="precomputed",
        metrics=[metric],
    )[metric]
    assert tied.chance == tied.expected


@pytest.mark.parametrize("metric", RANKING)
@pytest.mark.parametrize("relevant", ["1", "10", "011", "1100", "0001000", "1111111", "1010101"])
def test_chance_by_enumeration(metric: str, relevant: str) -> None:
    marks = [mark == "1" for mark in relevant]
    score = one_query(range(len(marks)), marks, [metric])[metric]
    assert score.chance == pytest.approx(float(ranking.chance(metric, marks)), rel=3e-16)
