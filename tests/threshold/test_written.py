"""The threshold as it is printed: ordinary code that compares with it decides as truerank does."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import truerank
from truerank.analysis.operating_points import MARGIN


def clustered() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(30), 6)
    rows = rng.normal(size=(30, 16))[labels] + 0.9 * rng.normal(size=(180, 16))
    return rows.astype(np.float32), labels


def ordinary(distance: str, rows: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What a program computes, without any care."""
    x, y = rows.astype(np.float64), other.astype(np.float64)
    if distance == "cosine":
        lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)[None, :]
        return np.asarray(1 - (x @ y.T) / lengths)
    if distance == "euclidean":
        return np.asarray(np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2)))
    return np.asarray(-(x @ y.T))


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("target", [{"far": 0.01}, {"far": 0.1}, {"frr": 0.05}])
def test_a_program_accepts_the_same_pairs(distance: str, target: dict[str, Any]) -> None:
    rows, labels = clustered()
    point = truerank.choose_threshold(rows, labels, distance=distance, **target)
    assert f"{point.decimal} (chosen" in str(point).replace("\n", " ")
    if point.within:
        pytest.skip("no room between two pairs of this sample")
    accepted = ordinary(distance, rows, rows) <= float(point.decimal)
    upper = np.triu_indices(len(rows), 1)
    same = labels[upper[0]] == labels[upper[1]]
    accepted = accepted[upper]
    assert accepted[~same].mean() == pytest.approx(point.values["far"], abs=1e-15)
    assert 1 - accepted[same].mean() == pytest.approx(point.values["frr"], abs=1e-15)


def test_there_is_a_margin_on_both_sides() -> None:
    rows, labels = clustered()
    point = truerank.choose_threshold(rows, labels, far=0.01)
    assert point.within == 0
    gaps = np.abs(
        ordinary("cosine", rows, rows)[np.triu_indices(len(rows), 1)] - float(point.decimal)
    )
    assert gaps.min() > 0.99 * float(MARGIN)
    assert len(point.decimal) <= 9
    assert Fraction(point.decimal) > Fraction(point.threshold)


def test_pairs_without_room_are_counted() -> None:
    """Two rejected pairs lie a hair's breadth beyond the last accepted one."""
    matrix = np.full((8, 8), 0.9)
    labels = np.repeat(np.arange(4), 2)
    for first, second, value in ((0, 1, 0.1), (2, 3, 0.2), (4, 5, 0.3), (6, 7, 0.3)):
        matrix[first, second] = matrix[second, first] = value
    matrix[0, 2] = matrix[2, 0] = 0.5
    matrix[1, 3] = matrix[3, 1] = 0.5 + 4e-8
    point = truerank.choose_threshold(matrix, labels, distance="precomputed", far=0.05)
    assert point.threshold == 0.5
    assert 0.5 <= float(point.decimal) < 0.5 + 4e-8
    assert point.within > 0
    assert "pairs lie within 1e-7 of that" in str(point).replace("\n", " ")
    assert point.values["far"] == pytest.approx(1 / 24)


def test_similarities_and_counts() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(12), 3)
    bits = rng.random((12, 40))[labels] + 0.35 * rng.normal(size=(36, 40)) > 0.5
    counted = truerank.choose_threshold(bits, labels, distance="hamming", far=0.05)
    assert counted.threshold < float(counted.decimal) < counted.threshold + 1
    alike = 40.0 - (bits[:, None] != bits[None]).sum(axis=2)
    similar = truerank.choose_threshold(alike, labels, distance="similarity", far=0.05)
    assert similar.threshold - 1 < float(similar.decimal) < similar.threshold
    assert similar.values == pytest.approx({k: counted.values[k] for k in similar.values})
