"""The histogram of distances is numpy's, of the pairs of either kind."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank.settings import limits, settings


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
    for kind in ("mates", "others"):
        assert some[kind].sum() == pytest.approx(1.0)
        middle = (some["distance"] + some["from"]) / 2 @ some[kind]
        expected = (exact["distance"] + exact["from"]) / 2 @ exact[kind]
        assert middle == pytest.approx(expected, rel=0.03)
