"""Observers count what searching would, from one side of a tile or from both at once."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from truerank._util.settings import settings
from truerank.engine.blocks import Cuts, DistanceBlock, tally
from truerank.engine.reducers import Collector, Tally, TallyByFold

RNG = np.random.default_rng(5)
NEAR_TIES = np.concatenate([1 + np.arange(-4, 5) * 2.0**-52, [1 - 2.0**-53, 0.5, 3.0]])


def distances(kind: str) -> np.ndarray:
    """(6, 300) distances, some of them of pairs that never meet."""
    found = {
        "spread": RNG.normal(size=(6, 300)),
        "at the cuts and next to them": RNG.choice(NEAR_TIES, (6, 300)),
        "mostly beyond": 2 + RNG.random((6, 300)) * (RNG.random((6, 300)) < 0.9),
        "all beyond": np.full((6, 300), 9.0),
    }[kind]
    return np.where(RNG.random(found.shape) < 0.1, np.inf, found)


CUTS = {
    "one": np.array([1.0]),
    "few": np.array([-0.3, 0.5, 1.0, np.nextafter(1.0, 0), 2.25]),
    "crowded, and one far away": np.concatenate([1 + np.arange(40) * 2.0**-52, [2.5]]),
    "many": RNG.normal(size=2_000),
}
KINDS = ("spread", "at the cuts and next to them", "mostly beyond", "all beyond")


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_distances_between_cuts(kind: str, cuts: str, dtype: type) -> None:
    rows, at = distances(kind), Cuts.of(CUTS[cuts])
    owner = np.array([0, 1, 1, 0, 2, 1])
    expected = np.zeros((3, len(at) + 1), np.int64)
    for row, mine in zip(rows, owner, strict=True):
        for place in np.searchsorted(at.at, row[row < np.inf], side="left"):
            expected[mine, place] += 1
    for compiled in (True, False):
        counts = np.zeros(expected.shape, dtype)
        tally(rows, at, owner, counts, compiled=compiled)
        tally(rows, at, owner, counts, compiled=compiled, times=2)
        assert np.array_equal(counts, 3 * expected)


def two_sides(kind: str) -> tuple[DistanceBlock, DistanceBlock]:
    """Six rows against six others, all of which meet, and the same from the other side."""
    tile = distances(kind)[:, :6]
    tile = np.where(tile == np.inf, 7.0, tile)
    return (
        DistanceBlock(np.arange(6), tile, True, 6),
        DistanceBlock(np.arange(6, 12), np.ascontiguousarray(tile.T), True, 0),
    )


@pytest.mark.parametrize("owners", [1, 3])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_at_once(kind: str, cuts: str, owners: int) -> None:
    sides, owner = two_sides(kind), np.arange(12) % owners
    one, both = (Tally(Cuts.of(CUTS[cuts]), owner, owners) for _ in range(2))
    some, all_ = (Collector([(0.0, 1.0), (1.0, 5.0)]) for _ in range(2))
    for side in sides:
        one.observe(side)
        some.observe(side)
    both.observe_both(sides[0])
    all_.observe_both(sides[0])
    assert np.array_equal(one.counts, both.counts)
    for number in range(2):
        found = [part.distances(number, -np.inf, np.inf).tolist() for part in (some, all_)]
        assert found[0] == found[1]


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_by_fold(kind: str, cuts: str) -> None:
    """In one look, side by side, and by counting one pair after the other."""
    sides, at = two_sides(kind), Cuts.of(CUTS[cuts])
    owner = np.array([0, 1, -1, 2, 1, 0, 2, 2, -1, 0, 1, 1])
    fold = np.stack([np.arange(12) % 3, 3 + np.arange(12) % 2], axis=1)
    one, both = (TallyByFold(at, owner, 3, fold, 5) for _ in range(2))
    both.observe_both(sides[0])
    expected = np.zeros((3, 5, len(at)), np.int64)
    for side in sides:
        one.observe(side)
        for (row, item), d in np.ndenumerate(side.distances):
            if d <= at.at[-1] and owner[side.rows[row]] >= 0:
                place = np.searchsorted(at.at, d, side="left")
                expected[owner[side.rows[row]], fold[side.first + item], place] += 1
    for tally_ in (one, both):
        found = np.stack([tally_.counts_in(column) for column in range(5)], axis=1)
        assert np.array_equal(found, expected)
        assert np.array_equal(tally_.summed(slice(1, 4)), expected[:, 1:4].sum(axis=1))
        assert np.array_equal(tally_.every, expected.sum(axis=2))


@pytest.mark.parametrize("one_sided", [False, True])
def test_a_mask_of_one_order_is_seen_from_its_side_alone(one_sided: bool) -> None:
    """Where a pair never meets in one order, the other order counts on its own."""
    labels = np.arange(60) // 3
    rows = RNG.normal(size=(20, 8))[labels] + RNG.normal(size=(60, 8))
    never = np.zeros((60, 60), bool)
    never[RNG.integers(0, 60, 40), RNG.integers(0, 60, 40)] = True
    never &= labels[:, None] != labels
    if not one_sided:
        never |= never.T
    asked = {"metrics": ["auc", "eer", "tar@far=0.1", "opis"], "junk": never, "confidence": None}
    found = []
    for method, side in (("symmetric", 7), ("symmetric", 60), ("float64", 60)):
        with settings(method=method, side=side):
            scores = truerank.evaluate(rows, labels, **asked)
        found.append([repr(score) for score in scores.values()])
    assert found[0] == found[1] == found[2]
