"""Close blocks answer as exact distances would, whatever their float32 scores leave open."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.conftest import Within
from tests.engine.ambiguous_rows import KINDS, positive_rows, random_rows
from tests.quiet import evaluate
from truerank._util.settings import limits, settings
from truerank._util.threads import Workspace
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.engine import blocks as close_block
from truerank.engine.blocks import LARGEST, CloseBlock, DistanceBlock, ExcludedPairs
from truerank.engine.counts import Filter, Multiplication
from truerank.task.relevance import PairList

QUERIES, ITEMS = 30, 300
NEVER = 200
"""Pairs that never meet."""


def blocks(make: Any, dimension: int = 150) -> tuple[CloseBlock, DistanceBlock, Space]:
    """The same block twice: by scores, and by exact distances."""
    rng = np.random.default_rng(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        rows = make(rng, QUERIES + ITEMS, dimension)
        space = build("cosine", rows[:QUERIES], rows[QUERIES:])
    some = rng.permutation(QUERIES)[:20]
    way = Filter.close(space, None)
    scores = np.empty((len(some), ITEMS), np.float32)
    items = way.single.items(0, ITEMS, np.empty((ITEMS, dimension), np.float32))
    for start in (0, 130):  # in two parts
        part = items[start : start + 130 if start == 0 else ITEMS]
        Multiplication(way.single)(way.single.queries(some), part, scores, start)
    pairs = np.unique(rng.integers(len(some) * ITEMS, size=NEVER))
    excluded = ExcludedPairs.of(PairList(*np.divmod(pairs, ITEMS)))
    close = CloseBlock(way, some, scores, Workspace())
    exact = DistanceBlock(some, space.block(some)(0, ITEMS), True)
    for block in (close, exact):
        block.separate(excluded)
    return close, exact, space


def grids(exact: DistanceBlock, space: Space) -> list[tuple[np.ndarray, float, float]]:
    """Even grids: coarse, fine, so fine that nothing is certain, and one of some of the range."""
    finite = exact.distances[exact.distances < np.inf]
    low, high = float(finite.min()), float(finite.max())
    width = (high - low) or 1.0
    found = []
    for start, over, steps in ((0.0, 2.0**52, 5), (0.0, 2.0**52, 5000), (low, width, 1000),
                               (low, width, 10**6), (low + width / 3, width / 3, 100)):  # fmt: skip
        cuts = start + np.arange(steps + 1) * (over / steps)
        cuts[-1] = LARGEST
        found.append((cuts, start, over))
    return found


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("room", [1 / 6, 0.0])
def test_counts_and_nearest_are_those_of_exact_distances(
    make: Any, room: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for all open pairs, and with room for those of two rows alone."""
    monkeypatch.setattr(close_block, "OPEN_SHARE", room)
    monkeypatch.setattr(close_block, "EXACT_ROWS", 7)
    close, exact, space = blocks(make)
    for grid in grids(exact, space):
        accepted = (exact.distances[:, :, None] <= grid[0][: 1 << 13]).sum(axis=1)
        assert np.array_equal(close.accepted(*grid)[:, : 1 << 13], accepted)
        assert np.array_equal(close.accepted(*grid), exact.accepted(*grid))
    assert np.array_equal(close.least(), exact.distances.min(axis=1))
    ascending = np.sort(exact.distances, axis=1)
    for count in (1, 2, 9, 40, ITEMS, 2 * ITEMS):
        chosen = np.array([3, 1, 17])
        assert np.array_equal(close.nearest(chosen, count), ascending[chosen, :count])
    for limit in (*ascending[4, [0, 7, 150]], -1.0, 0.0, 2.0**51, LARGEST):
        assert np.array_equal(close.within(limit), (exact.distances <= limit).sum(axis=1))
    assert np.array_equal(close.distances, exact.distances)
    assert close.items == slice(0, ITEMS)


def test_few_pairs_are_computed_again() -> None:
    """Of random rows hardly any; the bound of unsliced products leaves several times as many."""
    close, exact, space = blocks(random_rows, 512)
    asked: list[int] = []
    pairs = space.pairs
    space.pairs = lambda query, item: asked.append(len(query)) or pairs(query, item)  # type: ignore[method-assign, func-returns-value]
    cuts = np.arange(5001) * (2.0**52 / 5000)
    close.accepted(cuts, 0.0, 2.0**52)
    assert 0 < sum(asked) < 0.04 * exact.distances.size
    assert space.single is not None
    assert space.single.reach > 5 * space.single.in_slices().reach


def test_the_bound_is_needed() -> None:
    """Without it, counts on a fine grid differ: the tests above can fail."""
    close, exact, space = blocks(positive_rows)
    close._reach = 0.0
    fine = grids(exact, space)[2]
    assert not np.array_equal(close.accepted(*fine), exact.accepted(*fine))


ASKED = ["map", "mrep", "mfr@b=7", "mvp@tau=0.3", "mrep_max", "tau_nz", "minp"]


@pytest.mark.parametrize("confidence", [None, 0.95])
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_gom_from_close_rows_has_the_bits_of_the_reference(
    make: Any, confidence: float | None, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    within(limits(breakpoints=0))  # integrals are bracketed
    rng = np.random.default_rng(4)
    data, labels = make(rng, 140, 70), rng.integers(30, size=140)
    labels[:9] = np.arange(1000, 1009)
    options: dict[str, Any] = {"query_groups": rng.integers(3, size=140), "metrics": ASKED}
    options["confidence"] = confidence
    if confidence is None:  # intervals of DIR look at the nearest by fold, in exact rows
        options["metrics"] = [*ASKED, "dir@far=0.1"]
    seen: list[int] = []
    accepted = CloseBlock.accepted
    monkeypatch.setattr(
        CloseBlock, "accepted", lambda self, *a: seen.append(len(self.rows)) or accepted(self, *a)
    )
    gallery = {"gallery": data[50:], "gallery_labels": labels[50:]}
    gallery |= {"query_ids": np.arange(140), "gallery_ids": np.arange(50, 140)}
    gallery["gallery_groups"] = options["query_groups"][50:]
    for asked in (options, options | gallery):
        expected = evaluate(data, labels, device="reference", **asked).to_dict()["scores"]
        for sizes in ({}, {"gallery_rows": 33, "query_rows": 50}):
            seen.clear()
            with settings(method="filter", sort_share=1.0, **sizes):
                found = evaluate(data, labels, threads=2, **asked).to_dict()["scores"]
            assert json.dumps(found) == json.dumps(expected)
            assert seen
