"""DIR and FAR in smaller galleries, against every sub-gallery."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import truerank
from tests import quiet
from tests.oracles import growth as oracle

CLOSE = 1e-12


def task(seed: int) -> dict[str, Any]:
    """Queries with and without a mate against a small gallery, with ties."""
    rng = np.random.default_rng(seed)
    gallery_labels = np.array([0, 0, 1, 1, 2, 3, 4, 5])
    labels = np.array([0, 1, 2, 3, 7, 8, 9, 7, 8, 9, 6])
    matrix = rng.integers(0, 9, (len(labels), len(gallery_labels))) / 10
    return {"embeddings": matrix, "labels": labels, "gallery_labels": gallery_labels}


def expected_far(row: np.ndarray, drawn: int, accepted: Any) -> Fraction:
    """The share of sub-galleries in which a stranger has anything accepted."""
    found = [
        any(accepted(row[item]) for item in items)
        for items in oracle.sub_galleries([False] * len(row), drawn)
    ]
    return Fraction(sum(found), len(found))


def identified(row: np.ndarray, mates: np.ndarray, drawn: int, accepted: Any) -> list[Fraction]:
    """Lower, expected and upper of being found first and accepted, over all sub-galleries."""
    if not accepted(row[mates].min()):
        return [Fraction(0)] * 3
    return list(oracle.triple("hit@1", row.tolist(), mates.tolist(), drawn))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1, 3, 5, 8])
def test_every_sub_gallery(seed: int, size: int) -> None:
    given = task(seed)
    matrix, labels, items = given["embeddings"], given["labels"], given["gallery_labels"]
    metrics = ["far@tau=0.3", "dir@tau=0.3", "dir@far=0.3", "ttr@tau=0.3"]
    result = quiet.evaluate(
        **given, distance="precomputed", metrics=metrics, gallery_sizes=[size], confidence=None
    )
    at = result.at_gallery(size)
    strangers = ~np.isin(labels, items)
    drawn = oracle.drawn_of(8, size, 8)

    rates = [expected_far(row, drawn, lambda d: d <= 0.3) for row in matrix[strangers]]
    found = at["far@tau=0.3"]
    assert abs(Fraction(found.value) - sum(rates) / len(rates)) <= CLOSE

    def check(name: str, accepted: Any) -> None:
        truth = []
        for row, label in zip(matrix[~strangers], labels[~strangers], strict=True):
            mates = items == label
            chosen = oracle.drawn_of(8 - int(mates.sum()), size, 8)
            truth.append(identified(row, mates, chosen, accepted))
        for end, values in zip(
            ("lower", "expected", "upper"), zip(*truth, strict=True), strict=True
        ):
            exact = sum(values, Fraction(0)) / len(values)
            assert abs(Fraction(getattr(at[name], end)) - exact) <= CLOSE, (name, end)

    check("dir@tau=0.3", lambda d: d <= 0.3)

    # the largest observed threshold whose expected rate is at most the target
    target = Fraction("0.3")
    limit = np.inf
    for distance in np.unique(matrix[strangers]):
        every = [
            expected_far(row, drawn, lambda d, most=distance: d <= most)
            for row in matrix[strangers]
        ]
        if sum(every) / len(every) > target:
            limit = distance
            break
    check("dir@far=0.3", lambda d: d < limit)
    if size < 8:
        assert "any item" in at.skipped["ttr@tau=0.3"]
    else:
        assert repr(at["dir@far=0.3"]) == repr(result["dir@far=0.3"])


def test_rates_that_meet_the_target_exactly() -> None:
    """One stranger accepted with probability 1/4, at a target of 0.25 and a little below it."""
    matrix = np.array([[0.1, 0.5, 0.6, 0.7], [0.2, 0.8, 0.8, 0.9]])
    given = {"labels": [0, 9], "gallery_labels": [0, 1, 2, 3], "distance": "precomputed"}
    result = truerank.evaluate(
        matrix,
        **given,
        metrics=["dir@far=1", "far@tau=0.2", "far@tau=0.8"],
        gallery_sizes=[1, 2],
        confidence=None,
    )
    assert result.at_gallery(1)["far@tau=0.2"].value == 0.25
    assert result.at_gallery(2)["far@tau=0.2"].value == 0.5
    assert result.at_gallery(1)["far@tau=0.8"].value == 0.75
    assert result.at_gallery(1)["dir@far=1"].value == 1.0


def test_a_deep_threshold_is_looked_for_again() -> None:
    """A twentieth of a gallery: the threshold lies far behind the nearest items."""
    rng = np.random.default_rng(1)
    matrix = rng.random((120, 400))
    labels = np.concatenate([np.arange(60), np.full(60, -5)])
    names = ["dir@far=0.5", "dir@far=0.9"]
    result = quiet.evaluate(
        matrix,
        labels,
        gallery_labels=np.arange(400),
        distance="precomputed",
        metrics=names,
        gallery_sizes=[2, 20],
        confidence=None,
    )
    for size in (2, 20):
        for name in names:
            target = float(name[8:])
            threshold = result.at_gallery(size)[name].threshold
            accepted = (matrix[60:] <= threshold).sum(axis=1)
            missed = np.ones(60)
            for i in range(size):
                missed *= np.maximum(400 - accepted - i, 0) / (400 - i)
            assert target - 0.02 < 1 - missed.mean() <= target


def test_intervals_with_a_gallery_of_its_own() -> None:
    rng = np.random.default_rng(2)
    given = {"gallery_labels": np.arange(50), "distance": "precomputed", "gallery_sizes": [10]}
    result = quiet.evaluate(
        rng.random((100, 50)), np.arange(100), metrics=["far@tau=0.05", "dir@far=0.2"], **given
    )
    at = result.at_gallery(10)
    low, high = at["far@tau=0.05"].interval
    assert low < at["far@tau=0.05"].value < high
    assert "whole gallery" in at["dir@far=0.2"].interval_reason
