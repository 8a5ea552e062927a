"""The warning about rows that the grid cannot tell apart."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import truerank


def collapsed(signal: float) -> tuple[np.ndarray, np.ndarray]:
    """Float32 rows: one direction for all, and a small part that tells the classes apart."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 5)
    own = rng.standard_normal((40, 64))[labels] + 1.2 * rng.standard_normal((200, 64))
    common = rng.standard_normal(64) / 8
    return (common + signal * own).astype(np.float32), labels


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_collapsed_rows_are_announced(distance: str) -> None:
    rows, labels = collapsed(3e-8)
    with pytest.warns(truerank.TruerankWarning, match="grid .* decides the ranking") as caught:
        result = truerank.evaluate(rows, labels, distance=distance, confidence=None)
    assert "2^-2" in str(caught[0].message)
    assert "decides the ranking" in result.provenance["distance"]["notes"][0]


@pytest.mark.parametrize("signal", [1.0, 1e-3, 1e-5])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_nothing_is_said_where_the_grid_suffices(signal: float, distance: str) -> None:
    rows, labels = collapsed(signal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = truerank.evaluate(rows, labels, distance=distance, confidence=None)
    assert result["map@r"].value > 0.6


def test_duplicates_and_small_integers_are_no_collapse() -> None:
    rng = np.random.default_rng(1)
    rows, labels = rng.integers(0, 2, (200, 12)), rng.integers(0, 40, 200)
    for some in (rows, rows.astype(np.float32), rng.standard_normal((5, 8))[labels % 5]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            truerank.evaluate(some, labels, confidence=None)


def test_the_order_of_rows_changes_no_word() -> None:
    rows, labels = collapsed(3e-8)
    order = np.random.default_rng(2).permutation(len(rows))
    said = []
    for some, theirs in ((rows, labels), (rows[order], labels[order])):
        with pytest.warns(truerank.TruerankWarning) as caught:
            truerank.evaluate(some, theirs, confidence=None)
        said.append(str(caught[0].message))
    assert said[0] == said[1]
