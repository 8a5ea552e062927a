"""Filter and refine: the float32 path decides only what it can prove, or is given up."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truerank
from tests import registered
from tests.conftest import Within
from tests.engine.ambiguous_rows import duplicate_rows, fingerprint, random_rows
from truerank._util.settings import settings
from truerank.core import registry
from truerank.engine import count_kernels, counts, filter_kernels
from truerank.engine.counts import Counts

AGAIN_FROM_COUNTS = [
    text for text in registered.ranking() if registry.ranking(registry.parse(text)).reduced
]
"""Metrics whose intervals need no second look at the distances."""


@st.composite
def tiles(draw: st.DrawFn) -> tuple[np.ndarray, Counts, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, exact distances that agree with them outside intervals, and the intervals."""
    queries, items = draw(st.integers(1, 3)), draw(st.integers(1, 90))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([3, 30, 1000]))
    exact = rng.integers(0, spread, size=(queries, items)).astype(float)
    error = draw(st.sampled_from([0, 1, 5]))
    scores = (-exact + rng.integers(-error, error + 1, exact.shape)).astype(np.float32)
    mates = rng.random(exact.shape) < draw(st.sampled_from([0.0, 0.1, 0.9]))
    query, item = np.nonzero(mates)
    frame = Counts.frame(query, exact[query, item], np.ones(len(query), int), queries, 1)
    low = (-frame.distance - error).astype(np.float32)
    high = (-frame.distance + error).astype(np.float32)
    return scores, frame, low, high, exact


@given(tiles())
def test_certain_and_doubtful_entries_make_the_exact_counts(case: Any) -> None:
    scores, frame, low, high, exact = case
    expected = frame.empty_copy()
    count_kernels.count_tile(
        exact, expected.offsets, expected.distance, expected.between, expected.equal
    )
    counts = frame.empty_copy()
    query, item = np.empty((2, scores.size + scores.shape[1]), np.int64)
    taken, listed = filter_kernels.count_scores(
        scores, 0, frame.offsets, low, high, counts.between, query, item
    )
    query, item = query[:listed], item[:listed]
    assert taken == len(scores)
    assert len({*zip(query.tolist(), item.tolist(), strict=True)}) == listed
    count_kernels.count_pairs(
        query,
        exact[query, item],
        1,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    np.testing.assert_array_equal(counts.between, expected.between)
    np.testing.assert_array_equal(counts.equal, expected.equal)


def test_rows_that_do_not_fit_the_lists_are_left() -> None:
    scores = np.zeros((5, 6), np.float32)
    frame = Counts.frame(np.arange(5), np.zeros(5), np.ones(5, int), 5, 1)
    low, high = np.full(5, -1, np.float32), np.ones(5, np.float32)
    query, item = np.empty((2, 15), np.int64)
    found = filter_kernels.count_scores(
        scores, 0, frame.offsets, low, high, frame.between, query, item
    )
    assert found == (2, 12)
    assert query[:12].tolist() == [0] * 6 + [1] * 6
    assert item[:12].tolist() == [*range(6)] * 2
    assert not frame.between.any()


def count_tiles(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many tiles were computed in each way from now on."""
    seen = {"scores": 0, "exact": 0}
    product, exact = counts.Buffers.product, counts.Filter.add_exact

    def watched_product(self: Any, *arguments: Any) -> Any:
        seen["scores"] += 1
        return product(self, *arguments)

    def watched_exact(self: Any, *arguments: Any) -> None:
        seen["exact"] += 1
        exact(self, *arguments)

    monkeypatch.setattr(counts.Buffers, "product", watched_product)
    monkeypatch.setattr(counts.Filter, "add_exact", watched_exact)
    return seen


@pytest.mark.parametrize(("method", "tiles"), [("symmetric", 45), ("filter", 81)])
def test_the_filter_is_given_up_where_it_decides_nothing(
    method: str, tiles: int, monkeypatch: pytest.MonkeyPatch, within: Within
) -> None:
    data, labels = duplicate_rows(np.random.default_rng(1), 180, 8), np.arange(180) % 60
    expected = fingerprint(data, labels, device="reference")
    within(settings(patience=4))
    seen = count_tiles(monkeypatch)
    with settings(method=method, side=20, gallery_rows=20, query_rows=20, sort_share=1.0):
        assert fingerprint(data, labels, threads=1) == expected
    assert seen["scores"] < tiles / 2
    assert seen["exact"] > tiles / 2


@pytest.mark.parametrize(("method", "tiles"), [("symmetric", 45), ("filter", 81)])
def test_each_tile_is_multiplied_once(
    method: str, tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, labels = random_rows(np.random.default_rng(1), 180, 8), np.arange(180) % 60
    seen = count_tiles(monkeypatch)
    with settings(method=method, side=20, gallery_rows=20, query_rows=20, sort_share=1.0):
        truerank.evaluate(data, labels, metrics=AGAIN_FROM_COUNTS, threads=2)
    assert seen == {"scores": tiles, "exact": 0}


def test_a_broken_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mate that is not met near its own distance: the product lied."""
    product = counts.Buffers.product

    def lying(self: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        scores = product(self, left, right)
        scores *= np.float32(0.9)
        return scores

    monkeypatch.setattr(counts.Buffers, "product", lying)
    data, labels = random_rows(np.random.default_rng(2), 100, 16), np.arange(100) % 30
    for method in ("filter", "symmetric"):
        with (
            settings(method=method, sort_share=1.0),
            pytest.raises(truerank.ExactnessError),
        ):
            truerank.evaluate(data, labels)


def in_sixteen_bits(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """What a BLAS does that rounds float32 operands to bfloat16: fast, and out of bounds."""
    short = [
        (side.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for side in (left, right)
    ]
    return short[0] @ short[1].T


def test_a_product_of_lower_precision_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    data, labels = random_rows(np.random.default_rng(2), 100, 16), np.arange(100) % 30
    expected = fingerprint(data, labels, device="reference")
    seen = count_tiles(monkeypatch)
    monkeypatch.setattr(
        importlib.import_module("truerank.distance.probe"), "product", in_sixteen_bits
    )
    with settings(method="filter", sort_share=1.0):
        assert fingerprint(data, labels) == expected
        result = truerank.evaluate(data, labels)
    assert seen == {"scores": 0, "exact": 0}
    assert result.provenance["distance"]["notes"] == [
        "the float32 product of this machine breaks its error bound"
    ]
