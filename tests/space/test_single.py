"""The bound of float32 scores, against Python integers with sums in several orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.ambiguous_rows import (
    KINDS,
    near_tie_rows,
    outlier_rows,
    positive_rows,
    random_rows,
)
from truerank.distance.catalogue import build
from truerank.distance.grid import SinglePrecision


def sums(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """x @ y.T in float32, summed in several orders."""
    products = x[:, None, :] * y[None, :, :]
    ascending = np.take_along_axis(products, np.argsort(np.abs(products), axis=2), axis=2)
    fused = np.zeros(products.shape[:2], np.float32)
    for a, b in zip(x.T, y.T, strict=True):  # one rounding for product and sum
        fused = (fused.astype(np.float64) + np.outer(a.astype(np.float64), b)).astype(np.float32)
    return {
        "blas": x @ y.T,
        "first to last": np.cumsum(products, axis=2, dtype=np.float32)[:, :, -1],
        "last to first": np.cumsum(products[:, :, ::-1], axis=2, dtype=np.float32)[:, :, -1],
        "smallest first": np.cumsum(ascending, axis=2, dtype=np.float32)[:, :, -1],
        "largest first": np.cumsum(ascending[:, :, ::-1], axis=2, dtype=np.float32)[:, :, -1],
        "fused": fused,
    }


def space_of(data: np.ndarray, **options: Any) -> tuple[Any, SinglePrecision]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        space = build("cosine", data, **options)
    assert space.single is not None
    return space, space.single


def wrong_decisions(data: np.ndarray, single: SinglePrecision, space: Any) -> int:
    """Comparisons decided wrongly by scores outside the intervals, over orders of summation."""
    count = len(data)
    query, item = np.divmod(np.arange(count * count), count)
    exact = space.pairs(query, item).reshape(count, count)
    low, high = (ends.reshape(count, count) for ends in single.intervals(query, exact.ravel()))
    rows = single.items(0, count, np.empty((count, single.dimension), np.float32))
    wrong = 0
    for scores in sums(rows, rows).values():
        nearer = scores[:, :, None] > high[:, None, :]  # item against threshold
        farther = scores[:, :, None] < low[:, None, :]
        wrong += int((nearer & ~(exact[:, :, None] < exact[:, None, :])).sum())
        wrong += int((farther & ~(exact[:, :, None] > exact[:, None, :])).sum())
    return wrong


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dimension", [1, 3, 64, 700])
def test_no_order_of_summation_decides_wrongly(make: Any, dimension: int) -> None:
    data = make(np.random.default_rng(dimension), 24, dimension)
    space, single = space_of(data)
    assert wrong_decisions(data, single, space) == 0


def in_slices(rows: np.ndarray, single: SinglePrecision) -> list[np.ndarray]:
    """Products of slices, each summed in one of several orders, added up."""
    parts = [sums(rows[:, some], rows[:, some]) for some in single.slices]
    return [np.cumsum([part[order] for part in parts], axis=0)[-1] for order in parts[0]]


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dimension", [1, 64, 65, 700])
def test_products_in_slices_keep_their_bound(make: Any, dimension: int) -> None:
    """Each distance is `middle` less twice its score, give or take `reach`; whole products too."""
    data = make(np.random.default_rng(dimension), 24, dimension)
    space, single = space_of(data)
    query, item = np.divmod(np.arange(24 * 24), 24)
    exact = space.pairs(query, item)
    rows = single.items(0, 24, np.empty((24, dimension), np.float32))
    sliced = single.in_slices()
    assert [part.stop - part.start for part in sliced.slices[:-1]] == [64] * ((dimension - 1) // 64)
    for way, found in ((single, [*sums(rows, rows).values()]), (sliced, in_slices(rows, sliced))):
        for scores in found:
            away = exact - (way.middle - 2 * scores.ravel().astype(np.float64))
            assert np.abs(away).max() <= way.reach
    assert sliced.reach <= single.reach
    assert sliced.items(3, 9, rows[:6]) is not None


def test_the_bound_is_needed() -> None:
    """With a hundredth of it, some order of summation decides wrongly: the tests above can fail."""
    wrong = 0
    for make in (positive_rows, outlier_rows, near_tie_rows):
        data = make(np.random.default_rng(5), 24, 700)
        space, single = space_of(data)
        single._factor /= 100
        wrong += wrong_decisions(data, single, space)
    assert wrong > 0


def test_the_bound_covers_the_worst_sum_there_is() -> None:
    """Terms just below half a step of the sum so far, each lost when added to it."""
    dimension = 4096
    lost = 0.499 * 2.0**-24  # half a step of a float32 from 1/2 to 1 is 2^-25
    terms = [0.5 + 2.0**-12, *[lost] * (dimension - 2)]
    x = np.sqrt(np.array([[*terms, 1 - sum(terms)]]))
    space, single = space_of(x)
    rows = single.items(0, 1, np.empty((1, dimension), np.float32))
    low, high = single.intervals(np.array([0]), np.array([0.0]))
    scores = [float(score.item()) for score in sums(rows, rows).values()]
    exact = sum(int(v) ** 2 for v in space._left.integers[0].tolist())
    assert all(low[0] <= score <= high[0] for score in scores)
    reach = (float(high[0]) - float(low[0])) / 2
    assert max(abs(score - exact) for score in scores) > 0.4 * reach  # no extravagance either


def test_intervals_are_rounded_outward() -> None:
    """Against exact fractions, for thresholds at every place of the float32 grid."""
    rng = np.random.default_rng(3)
    _, single = space_of(random_rows(rng, 50, 8))
    query = rng.integers(50, size=400)
    distance = np.floor(rng.random(400) * 2.0**52)
    low, high = single.intervals(query, distance)
    gamma = 10 * 2.0**-24
    for q, d, below, above in zip(query, distance, low, high, strict=True):
        square = int(single._query_square[q])
        reach = int(gamma * (square * single._largest) ** 0.5)
        assert 2 * int(below) <= square + single._smallest - int(d) - 2 * reach
        assert 2 * int(above) >= square + single._largest - int(d) + 2 * reach
