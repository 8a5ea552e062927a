"""The band of the CMC curve is, at each rank, the interval of hit@k."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import clusters, uneven_clusters
from truerank._util.settings import limits
from truerank.intervals.first_item_replicates import FirstMateMoves, RankChanges

RANKS = (1, 2, 5, 10, 50)
METRICS = [f"hit@{rank}" for rank in RANKS]


def agree(result: truerank.Result, within: float = 1e-9) -> None:
    """The band reaches from the lowest limit at a rank or later to the highest one up to it.

    Only some ranks are scored: what lies between them may widen the band further.
    """
    curve = result.curve("cmc")
    told = {rank: result[f"hit@{rank}"].interval for rank in RANKS}
    told = {rank: ends for rank, ends in told.items() if ends is not None}
    assert len(told) >= 3
    for name in ("low", "high"):
        assert (np.diff(curve[name]) >= 0).all()
    equal = 0
    for rank in told:
        low, high = curve["low"][rank - 1], curve["high"][rank - 1]
        lowest = min(ends[0] for later, ends in told.items() if later >= rank)
        highest = max(ends[1] for earlier, ends in told.items() if earlier <= rank)
        assert low <= lowest * (1 + within)
        assert high >= highest * (1 - within)
        equal += (low, high) == (
            pytest.approx((lowest, highest), rel=within) if within else (lowest, highest)
        )
    assert equal >= 2


@pytest.mark.parametrize("seed", range(3))
def test_the_band_never_falls_and_is_no_wider_than_that_takes(seed: int) -> None:
    """Of every rank's interval, by a loop over all ranks; behind the last one, as it does there."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(20), 3)
    rows = rng.normal(size=(20, 6))[labels] + 1.3 * rng.normal(size=(60, 6))
    ranks = range(1, 59)
    result = truerank.evaluate(rows, labels, metrics=[f"hit@{rank}" for rank in ranks])
    ends = {rank: result[f"hit@{rank}"].interval for rank in ranks}
    known = {rank: found for rank, found in ends.items() if found is not None}
    falls = [known[k][0] > known[j][0] for k in known for j in known if j > k]
    assert any(falls)  # else this test would not see anything
    curve = result.curve("cmc", ranks=58)
    for rank in known:
        low = min(found[0] for later, found in known.items() if later >= rank)
        high = max(found[1] for earlier, found in known.items() if earlier <= rank)
        at = (curve["low"][rank - 1], curve["high"][rank - 1])
        assert at == pytest.approx((low, high), rel=1e-12)


def test_every_query_counted() -> None:
    rows, labels = uneven_clusters(3)
    agree(truerank.evaluate(rows, labels, metrics=METRICS), within=0.0)


def test_a_sample_counted() -> None:
    """Both look at more of the queries that miss, and at the same ones."""
    rows, labels = clusters(4, classes=90, size=12, noise=2.0)
    with limits(counted=400):
        result = truerank.evaluate(rows, labels, metrics=METRICS)
    missed = [(1 - result[name].value) * len(rows) for name in METRICS]
    assert max(missed) > 400 > min(missed) > 0
    agree(result)


def test_classes_so_large_that_queries_are_computed_again() -> None:
    rows, labels = clusters(5, classes=12, size=60, noise=3.0)
    agree(truerank.evaluate(rows, labels, metrics=METRICS))


def test_the_finest_level_of_a_tree() -> None:
    rows, labels = clusters(6, classes=40, noise=1.6)
    paths = np.column_stack([labels // 4, labels])
    agree(truerank.evaluate(rows, paths, metrics=[*METRICS, "h_ap"]))


def test_a_gallery_of_its_own() -> None:
    """Intervals are drawn there, 2,000 times, and agree as far as that can."""
    rows, labels = clusters(8, classes=60, size=8, noise=1.8)
    own = np.arange(len(rows)) % 2 == 0
    result = truerank.evaluate(
        rows[own], labels[own], gallery=rows[~own], gallery_labels=labels[~own], metrics=METRICS
    )
    agree(result, within=0.04)


def test_more_ranks_lie_between_those_that_are_known() -> None:
    rows, labels = clusters(9, classes=60, noise=2.5)
    result = truerank.evaluate(rows, labels, metrics=["hit@1"])
    few, many = result.curve("cmc", ranks=100), result.curve("cmc", ranks=300)
    assert np.array_equal(few["low"], many["low"][:100])
    assert np.isfinite(many["low"]).all()
    assert (many["low"] <= many["lower"]).all()
    assert (many["lower"] <= many["high"]).all()
    wide = result.curve("cmc", ranks=100, band="simultaneous")
    assert (wide["low"] <= few["low"])[:50].mean() > 0.9
    assert (wide["high"] >= few["high"])[:50].mean() > 0.9
    assert (np.diff(wide["low"]) >= 0).all()  # a band around a curve that rises, rises


def test_without_intervals_there_is_no_band() -> None:
    rows, labels = clusters(9)
    assert "low" not in truerank.evaluate(rows, labels, confidence=None).curve("cmc")
    few = truerank.evaluate(rows[:18], labels[:18])  # three classes
    assert "low" not in few.curve("cmc")


def test_sums_of_rank_changes_by_brute_force() -> None:
    """Each query and fold by itself; some queries have no mate, some count from a rank on only."""
    rng = np.random.default_rng(12)
    ladder = np.array([1, 2, 3, 5, 9, 30])
    queries, columns = 60, 7
    own = rng.integers(columns, size=queries)
    before = rng.integers(0, 33, size=queries)
    without = np.minimum(rng.integers(0, 33, size=(queries, columns)), before[:, None])
    folds: Any = SimpleNamespace(own=slice(0, columns), own_query=own)
    changes = RankChanges(folds, ladder)
    since = np.minimum(rng.integers(0, 4, size=queries), np.searchsorted(ladder, before))
    every, late = np.arange(40), np.arange(40, queries)
    changes.add(every, before[every], without[every].astype(np.int32))
    changes.add(late, before[late], without[late].copy(), since[late])
    staying = np.zeros(columns, int)
    missing, gained = np.zeros((2, columns, len(ladder)), int)
    for query, column in product(range(queries), range(columns)):
        now = without[query, column]
        if now == 0 or column == own[query]:
            continue
        staying[column] += query < 40
        for place, rank in enumerate(ladder.tolist()):
            if query >= 40 and place < since[query]:
                continue
            misses = before[query] > rank
            missing[column, place] += misses
            gained[column, place] += misses and now <= rank
    # as many queries as there are, but no fewer than were added, stand behind each column
    found = rng.integers(30, 90, size=(columns, len(ladder) + 1))
    left = found.sum() - found.sum(axis=1)
    for by_rank in (False, True):
        to = np.zeros((2, columns, len(ladder)))
        changes.move(found, left, by_rank, to)
        for column, place in product(range(columns), range(len(ladder))):
            others = np.delete(found, column, axis=0)[:, place + 1 if by_rank else 0 :].sum()
            count = int(missing[column, place] if by_rank else staying[column])
            share, hits = others / left[column], int(gained[column, place])
            centre = hits / max(count, 1)
            around = max(hits - hits * hits / max(count, 1), 0.0)
            variance = (
                (1 - count / others) * count / max(count - 1, 1) * around / max(count, 1) ** 2
            )
            assert to[0, column, place] == pytest.approx(share * centre, rel=1e-12)
            assert to[1, column, place] == pytest.approx(share**2 * variance, rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("enough", [1, 7, 40, 1000])
def test_who_is_looked_at_more_closely_by_brute_force(enough: int) -> None:
    rng = np.random.default_rng(enough)
    ladder = np.array([1, 2, 3, 5, 9, 30, 99])
    before = np.minimum(rng.geometric(0.15, size=200), 45)
    first = np.stack([before - 1, np.ones(200, int), rng.random(200) < 0.9])
    in_order, counted = rng.permutation(200)[:170], rng.random(200) < 0.3
    moves = FirstMateMoves(SimpleNamespace(own=slice(0, 3)), first.astype(int), 1, ladder)  # type: ignore[arg-type]
    wanted = np.full(200, -1)
    for place, rank in enumerate(ladder.tolist()):
        missing = [q for q in in_order.tolist() if first[2, q] and before[q] > rank]
        if sum(counted[q] for q in missing) < enough:
            for query in missing[:enough]:
                if not counted[query] and wanted[query] < 0:
                    wanted[query] = place
    among = np.isin(np.arange(200), in_order)
    found = moves.wanted(among, lambda rows: in_order[np.isin(in_order, rows)], counted, enough)
    np.testing.assert_array_equal(found, wanted)
