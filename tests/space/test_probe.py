"""A product that is off by the smallest amount is found out, by the probe or in the pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import truerank
from tests.space.exact import VECTORS, make, tile
from truerank._util.settings import settings
from truerank.distance.base import Space
from truerank.distance.inner_product import SquaredDistance
from truerank.distance.probe import probe
from truerank.engine import runner

ROWS = np.random.default_rng(10).standard_normal((40, 6)).astype(np.float32)
LABELS = np.arange(40) % 8


def off_by_one_unit(
    block: Callable[..., Any], where: Callable[[np.ndarray, int, int], Any]
) -> Callable[..., Any]:
    """A Space's block whose tiles are off by the smallest amount at one place."""

    def wrong(self: Space, rows: np.ndarray) -> Any:
        right = block(self, rows)

        def give(start: int, stop: int) -> np.ndarray:
            distances = right(start, stop)
            at = where(rows, start, stop)
            distances[at] = np.nextafter(distances[at], np.inf)
            return distances

        return give

    return wrong


@pytest.mark.parametrize("distance", [*VECTORS, "hamming"])
def test_a_product_that_is_off_by_one_unit_is_refused(
    distance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ROWS > 0 if distance == "hamming" else ROWS
    kind = type(make(distance, rows))
    probe(make(distance, rows))
    monkeypatch.setattr(kind, "block", off_by_one_unit(kind.block, lambda *_: (-1, -1)))
    with pytest.raises(truerank.ExactnessError, match=r"not exact: 1 of \d+ checked .* given rows"):
        probe(make(distance, rows))
    with pytest.raises(truerank.ExactnessError, match="integer arithmetic"):
        truerank.evaluate(rows, LABELS, distance=distance)


@pytest.mark.parametrize("bits", [24, 40, 48, 50])
def test_sums_in_lower_precision_show_on_rows_made_for_it(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own rows may be so simple that even a poor product gets them right."""

    def poor(self: SquaredDistance, rows: np.ndarray) -> Any:
        def give(start: int, stop: int) -> np.ndarray:
            right = self._right.integers[start:stop].astype(np.float64)
            mantissa, exponent = np.frexp(self._left.integers[rows] @ (-2 * right.T))
            product = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
            return product + self._left_square[rows, None] + self._right_square[start:stop]

        return give

    simple = make("hamming", np.eye(40, dtype=bool))
    monkeypatch.setattr(SquaredDistance, "block", poor)
    np.testing.assert_array_equal(tile(simple), 2 - 2 * np.eye(40))
    with pytest.raises(truerank.ExactnessError, match=r"all-positive rows|outlier dimension"):
        probe(simple)


WAYS = {"counted": 1.0, "sorted": 0.0}
"""Tiles are counted against few relevant items; with many, whole rows are sorted."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("distance", VECTORS)
def test_the_engine_finds_a_tile_that_is_off(
    distance: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mate that is not met at its own exact distance, wherever the probe looks."""
    view, space = truerank.Task(LABELS).view, make(distance, ROWS)

    def first_mate_of_the_last_query(block: np.ndarray, start: int, stop: int) -> Any:
        mates = np.equal.outer(LABELS[block], LABELS[start:stop])
        mates &= block[:, None] != np.arange(start, stop)
        found = np.argwhere(mates)
        return tuple(found[found[:, 0] == found[-1, 0]][0]) if len(found) else ([], [])

    with settings(sort_share=WAYS[way]):
        assert len(list(runner.tie_groups(view, space, device="cpu"))) == 1
    kind = type(space)
    wrong = off_by_one_unit(kind.block, first_mate_of_the_last_query)
    monkeypatch.setattr(kind, "block", wrong)
    monkeypatch.setattr(kind, "fill_rows", Space.fill_rows)  # which makes rows of blocks
    with settings(sort_share=WAYS[way]), pytest.raises(truerank.ExactnessError):
        list(runner.tie_groups(view, space, device="cpu"))


def test_the_engine_finds_an_excluded_pair_that_is_off() -> None:
    """The query itself, counted in one place and taken out in another."""

    class Off(type(make("cosine", ROWS))):  # type: ignore[misc]
        def pairs(self, query: np.ndarray, item: np.ndarray) -> np.ndarray:
            distances = super().pairs(query, item)
            distances[query == item] = 2.0**51
            return distances

    space = make("cosine", ROWS)
    space.__class__ = Off
    labels = np.zeros(40, int)
    with settings(sort_share=1.0), pytest.raises(truerank.ExactnessError):
        list(runner.tie_groups(truerank.Task(labels).view, space, device="cpu"))
