"""Near pairs, counted from both sides of a tile, are what whole tiles count from each."""

from __future__ import annotations

from threading import Lock

import numpy as np
import pytest

from truerank.engine import counts as near_pairs
from truerank.engine.counts import Counts, NearPairs


@pytest.mark.parametrize("share", [1 / 8, 0.0], ids=["in one list", "a few rows at a time"])
@pytest.mark.parametrize("farthest", [0, 4, 20], ids=["hardly any", "some", "all"])
def test_both_sides_are_counted(
    farthest: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties with mates, and queries without any, among them."""
    monkeypatch.setattr(near_pairs, "SHARE", share)
    rng = np.random.default_rng(3)
    query = np.sort(rng.integers(0, 50, size=120))  # some have none
    distance = rng.integers(0, farthest + 1, size=120).astype(np.float64)
    frame = Counts.frame(query, distance, np.ones(120, np.int64), 50, 1)
    tile = rng.integers(0, 20, size=(20, 30)).astype(np.float64)
    expected, counts = frame.empty_copy(), frame.empty_copy()
    expected.add_tile_from(0, tile, np.arange(20), (20, 50), None)
    expected.add_tile_from(20, np.ascontiguousarray(tile.T), np.arange(20, 50), (0, 20), None)
    pairs = NearPairs(counts, counts.farthest(), 30)
    pairs.add(tile, (0, 20), (20, 50), None, (Lock(), Lock()))
    assert np.array_equal(counts.between, expected.between)
    assert np.array_equal(counts.equal, expected.equal)
