"""The curve of utilities, by definition."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank._util.old_names import WITHOUT_BAND
from truerank._util.settings import limits


def utility(matrix: np.ndarray, labels: np.ndarray, label: int, at: float) -> float:
    """The harmonic mean of specificity and sensitivity of one class."""
    same = labels == label
    mates = matrix[np.ix_(same, same)][np.triu_indices(int(same.sum()), 1)]
    sensitivity = np.mean(mates <= at)
    specificity = np.mean(matrix[np.ix_(same, ~same)] > at)
    both = sensitivity + specificity
    return 2 * sensitivity * specificity / both if both else 0.0


@pytest.mark.parametrize("breakpoints", [10**8, 100])
def test_by_definition(breakpoints: int) -> None:
    rows, labels = clusters(0, classes=32, size=5)
    matrix = np.abs(rows[:, None] - rows[None]).sum(axis=2)
    with limits(breakpoints=breakpoints):
        result = truerank.evaluate(matrix, labels, distance="precomputed", metrics=["opis"])
    curve, range_ = result.curve("utility"), result.consistency()
    threshold = curve["threshold"]
    assert (threshold[0], threshold[-1]) == (range_.low, range_.high)
    for k in (1, 30, 70, len(threshold) - 2):
        every = sorted(utility(matrix, labels, c, threshold[k]) for c in range(32))
        assert curve["mean"][k] == pytest.approx(np.mean(every))
        assert curve["median"][k] == pytest.approx(every[16])
        assert curve["q05"][k] == pytest.approx(every[2])
        worst = range_.ranked[0].label
        assert curve[f"class {worst}"][k] == pytest.approx(
            utility(matrix, labels, worst, threshold[k])
        )


def test_single_classes_are_the_worst_and_the_best() -> None:
    rows, labels = clusters(1, classes=40, size=4)
    result = truerank.evaluate(rows, labels, metrics=["opis"])
    ranked = [f"class {one.label}" for one in result.consistency().ranked]
    columns = [name for name in result.curve("utility") if name.startswith("class ")]
    assert columns == [*ranked[:12], *ranked[-12:]]


def test_no_band_is_drawn_around_it() -> None:
    rows, labels = clusters(2, classes=60, size=5)
    result = truerank.evaluate(rows, labels, metrics=["opis"])
    assert result["opis"].interval is not None
    assert "low" not in result.curve("utility")
    assert result.curve("utility").band_reason == WITHOUT_BAND["utility"]


@pytest.mark.parametrize("utility", ["specificity", "precision"])
@pytest.mark.parametrize(
    ("positive", "negative"), [((0.6, 0.15), (1.3, 0.1)), ((0.9, 0.1), (1.2, 0.2))]
)
def test_utilities_of_gaussian_distances(
    positive: tuple[float, float], negative: tuple[float, float], utility: str
) -> None:
    """Eq. 7 to 10 of the paper: each query meets one item of its class and one of another.

    Distances are even quantiles of two Gaussians; all classes are alike.
    """
    size, classes = 200, 2
    z = np.array([NormalDist().inv_cdf((i + 0.5) / size) for i in range(size)])
    count = size * classes
    matrix, junk = np.ones((count, 2 * count)), np.ones((count, 2 * count), bool)
    every = np.arange(count)
    for side, (mean, deviation) in enumerate((positive, negative)):
        matrix[every, 2 * every + side] = mean + deviation * np.tile(z, classes)
        junk[every, 2 * every + side] = False
    labels = np.repeat(np.arange(classes), size)
    items = np.stack([labels, classes + every], axis=1).ravel()
    name = f"opis@far=0.02:0.6,utility={utility}"
    result = truerank.evaluate(
        matrix, labels, gallery_labels=items, junk=junk, distance="precomputed", metrics=name,
        confidence=None,
    )  # fmt: skip

    def error(at: float, of: tuple[float, float]) -> float:
        return math.erf((at - of[0]) / (math.sqrt(2) * of[1]))

    curve = result.curve("utility")
    assert len(curve["threshold"]) > 20
    for at, mean in zip(curve["threshold"], curve["mean"], strict=True):
        own, other = error(at, positive), error(at, negative)
        by_rates = (1 + own) * (1 - other) / (2 + own - other)
        by_precision = 2 * (1 + own) / (4 + own + other)
        expected = by_rates if utility == "specificity" else by_precision
        assert mean == pytest.approx(expected, abs=5e-3)
