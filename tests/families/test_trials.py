"""Accuracy over the folds of a list of trials, by brute force over all thresholds."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.refusals import assert_refused
from truerank.metrics.thresholds.verification import FoldedTrials

Trial = tuple[int, bool, int]


def by_hand(trials: list[Trial]) -> tuple[list[Fraction], list[float]]:
    """Shares judged rightly and thresholds: all half-way points tried, the least best one taken."""
    shares, thresholds = [], []
    for fold in sorted({fold for _, _, fold in trials}):
        rest = [(Fraction(apart), same) for apart, same, other in trials if other != fold]
        values = sorted({apart for apart, _ in rest})
        halves = [(a + b) / 2 for a, b in pairwise(values)]
        tries = [-math.inf, *halves, math.inf]
        right = [sum((apart <= at) == same for apart, same in rest) for at in tries]
        at = tries[right.index(max(right))]
        there = [(apart <= at) == same for apart, same, other in trials if other == fold]
        shares.append(Fraction(sum(there), len(there)))
        thresholds.append(float(at))
    return shares, thresholds


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3)), min_size=4, max_size=20
    )
)
def test_brute_force(trials: list[Trial]) -> None:
    apart, same, folds = (np.array(column) for column in zip(*trials, strict=True))
    folded = FoldedTrials(apart.astype(float), same, folds)
    kinds = [{s for _, s, f in trials if f != fold} for _, _, fold in trials]
    if any(len(kind) < 2 for kind in kinds):
        assert folded.lacking is not None
        return
    shares, thresholds = by_hand(trials)
    mean = sum(shares, Fraction(0)) / len(shares)
    found = folded.to_dict()
    assert found["per_fold"] == [float(share) for share in shares]
    assert found["accuracy"] == float(mean)
    assert found["thresholds"] == [at if math.isfinite(at) else None for at in thresholds]
    spread = np.std([float(share) for share in shares], ddof=1) / math.sqrt(len(shares))
    assert found["standard_error"] == pytest.approx(spread, abs=1e-15)


def test_the_threshold_lies_half_way_in_the_unit_of_the_user() -> None:
    """Not at a distance that was seen: 0.7 is nearer to 0.8 than to 0.2."""
    trials = [("a", "b", True), ("a", "c", False), ("d", "e", True), ("d", "f", False)]
    scores = [0.7, 0.1, 0.8, 0.2]
    result = truerank.verify(scores, trials, folds=[1, 1, 2, 2])
    assert next(iter(result)) == "accuracy"  # by default, where there are folds
    assert result["accuracy"].value == 1.0
    assert result["accuracy"].n == 4
    assert result["accuracy"].chance == 0.5
    assert result.provenance["folds"]["thresholds"] == [0.5, pytest.approx(0.4)]
    turned = truerank.verify(
        [1 - s for s in scores], trials, folds=list("aabb"), distance="precomputed"
    )
    assert turned.provenance["folds"]["thresholds"] == pytest.approx([0.5, 0.6])
    far = truerank.verify([[0.0], [1.0], [4.0], [9.0], [11.0]], [(0, 1, True), (0, 2, False)] * 2,
                          "accuracy", folds=[0, 0, 1, 1], distance="euclidean")  # fmt: skip
    assert far.provenance["folds"]["thresholds"] == [2.5, 2.5]  # of 1 and 4, not of 1 and 16


def test_of_equally_good_thresholds_the_least_is_taken() -> None:
    pairs = [("x", "y", same) for same in (True, False, True, False, True, False)]
    scores = [9.0, 8.0, 7.0, 6.0, 9.0, 6.5]  # of the first four: accept 9 alone, or down to 7
    result = truerank.verify(scores, pairs, "accuracy", folds=[0, 0, 0, 0, 1, 1])
    assert result.provenance["folds"]["thresholds"][1] == 8.5


def test_neighbouring_numbers_have_nothing_between_them() -> None:
    above = float(np.nextafter(1.0, 2.0))
    pairs = [("x", "y", True), ("x", "y", False)] * 2
    scores = [1.0, above] * 2
    result = truerank.verify(scores, pairs, "accuracy", folds=[0, 0, 1, 1], distance="precomputed")
    assert result["accuracy"].value == 1.0


def test_chance_is_the_more_frequent_kind() -> None:
    same = np.array([True] * 3 + [False] + [True] * 2 + [False] * 2)
    folded = FoldedTrials(np.arange(8.0), same, np.repeat([0, 1], 4))
    # Without the first fold, kinds are balanced: rejecting gets 1/4 there. Without the second,
    # accepting is better, and gets 2/4.
    assert folded.chance() == (1 / 4 + 2 / 4) / 2


def test_lists_without_folds() -> None:
    pairs = [("a", "b", True), ("a", "c", False)]
    result = truerank.verify([0.9, 0.1], pairs, ["accuracy", "auc"])
    assert math.isnan(result["accuracy"].value)
    assert result["accuracy"].reason == "not defined: the list of trials has no folds"
    assert result.provenance["folds"] is None
    lopsided = truerank.verify([0.9, 0.1], pairs, "accuracy", folds=[0, 1])
    assert "all trials are of one kind" in lopsided["accuracy"].reason
    given = {"folds": [1]}
    assert_refused(lambda: truerank.verify([0.9, 0.1], pairs, **given), ["one value per trial (2)"])
    assert_refused(lambda: truerank.verify([0.9, 0.1], pairs, folds=[1, 1]), ["at least two"])


def test_an_evaluation_has_none() -> None:
    assert_refused(
        lambda: truerank.evaluate(np.eye(4), [0, 0, 1, 1], metrics=["accuracy"]),
        ["accuracy", "list of trials", "truerank.verify"],
    )
    assert "accuracy" not in truerank.evaluate(np.eye(4), [0, 0, 1, 1], metrics="all")
