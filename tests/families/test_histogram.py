"""The histogram of distances is numpy's, of the pairs of either kind."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank._util.settings import limits, settings


@pytest.mark.parametrize("collected", [1 << 22, 0])
def test_by_numpy(collected: int) -> None:
    rows, labels = clusters(0)
    matrix = np.abs(rows[:, None] - rows[None]).sum(axis=2)
    with settings(collected=collected):
        result = truerank.evaluate(
            matrix, labels, distance="precomputed", metrics=["auc"], confidence=None
        )
    curve = result.curve("scores")
    i, j = np.triu_indices(len(rows), 1)
    same, distance = labels[i] == labels[j], matrix[i, j]
    ends = [distance.min(), *curve["distance"]]
    assert curve["from"].tolist() == ends[:-1]
    assert len(curve["distance"]) == 60
    assert curve["distance"][-1] == distance.max()
    for kind, some in (("mates", distance[same]), ("others", distance[~same])):
        place = np.searchsorted(ends[1:], some, side="left")
        expected = np.bincount(place, minlength=60) / len(some)
        assert curve[kind] == pytest.approx(expected, abs=1e-12)


def test_of_very_many_pairs_bins_end_at_distances_that_were_counted() -> None:
    rows, labels = clusters(1, classes=30, size=10)
    exact = truerank.evaluate(rows, labels, metrics=["auc"], confidence=None).curve("scores")
    with limits(sampled_from=1000, sampled_rows=64):
        some = truerank.evaluate(rows, labels, metrics=["auc"], confidence=None).curve("scores")
    width = some["distance"] - some["from"]
    assert width.min() > 0.4 * (some["distance"][-1] - some["from"][0]) / 60
    for kind in ("mates", "others"):
        assert some[kind].sum() == pytest.approx(1.0)
        middle = (some["distance"] + some["from"]) / 2 @ some[kind]
        expected = (exact["distance"] + exact["from"]) / 2 @ exact[kind]
        assert middle == pytest.approx(expected, rel=0.03)


def test_bins_are_drawn_as_densities() -> None:
    """Bins of squared distances are unequal distances: numpy's densities over the same ends."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    rng = np.random.default_rng(2)
    rows, labels = rng.integers(-99, 99, size=(60, 4)).astype(float), np.arange(60) % 12
    distance = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    result = truerank.evaluate(rows, labels, metrics="auc", distance="euclidean")
    display = result.plot("scores")
    i, j = np.triu_indices(60, 1)
    same, distance = labels[i] == labels[j], distance[i, j]
    for steps, some in zip(display.lines_, (distance[same], distance[~same]), strict=True):
        heights, edges, _ = steps.get_data()
        assert np.diff(edges).max() > 2 * np.diff(edges).min()
        inner = np.nextafter(edges, np.inf)  # numpy's bins hold their near ends, not their far ones
        inner[0] = edges[0]
        expected, _ = np.histogram(some, bins=inner, density=True)
        assert heights == pytest.approx(expected, rel=1e-9)
        assert (heights * np.diff(edges)).sum() == pytest.approx(1)
    assert display.ax_.get_ylabel() == "density of pairs"
    assert len(display.bands_) == 2
    display.figure_.canvas.draw()
    ticks = zip(display.ax_.get_yticks(), display.ax_.get_yticklabels(), strict=True)
    assert all(float(text.get_text()) == pytest.approx(place) for place, text in ticks)


def test_distances_a_few_steps_of_float64_apart_have_fewer_bins() -> None:
    odd = np.add.outer(np.arange(24), np.arange(24)) % 2 == 1
    matrix = np.where(odd, 1 + 3 * 2.0**-52, 1.0)
    labels = np.arange(24) // 2 % 6
    result = truerank.evaluate(matrix, labels, metrics="auc", distance="precomputed")
    curve = result.curve("scores")
    assert (curve["distance"] - curve["from"]).tolist() == [2.0**-52] * 3
    same = (labels[:, None] == labels)[np.triu_indices(24, 1)]
    for kind, some in (("mates", odd[np.triu_indices(24, 1)][same]),
                       ("others", odd[np.triu_indices(24, 1)][~same])):  # fmt: skip
        assert curve[kind] == pytest.approx([1 - some.mean(), 0, some.mean()])
