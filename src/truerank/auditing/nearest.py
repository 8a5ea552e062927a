"""One streaming pass over all pairs: what lies nearest to each row, and how often each row does.

A tile of exact distances at a time; nothing of the size rows x rows is ever held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.settings import current_settings
from truerank.space import Space

__all__ = ["Nearest", "Neighbours", "neighbours"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

NEAREST = 10


@dataclass(frozen=True)
class Nearest:
    """The two smallest distances of each row to rows of one kind, and where the first lies."""

    first: Reals
    second: Reals
    where: Integers

    @staticmethod
    def empty(rows: int) -> Nearest:
        """Nothing met yet."""
        return Nearest(np.full(rows, np.inf), np.full(rows, np.inf), np.full(rows, -1))

    def add(self, block: slice, distances: Reals, start: int) -> None:
        """Look at a tile; what does not count in it is infinite."""
        at = np.argmin(distances, axis=1)
        lines = np.arange(len(distances))
        first = distances[lines, at]
        kept = distances[lines, at]
        distances[lines, at] = np.inf
        second = distances.min(axis=1)
        distances[lines, at] = kept
        old, old_second = self.first[block].copy(), self.second[block].copy()
        nearer = first < old
        self.where[block] = np.where(nearer, at + start, self.where[block])
        self.first[block] = np.minimum(old, first)
        self.second[block] = np.minimum(np.maximum(old, first), np.minimum(old_second, second))


@dataclass(frozen=True)
class Neighbours:
    """What the pass saw. Distances are in the user's unit."""

    same: Nearest
    """Rows of the same label,"""
    other: Nearest
    """and of another label (all rows where there are no labels)."""
    occurrences: Integers
    """How often each item is among the ten nearest of another, or as near as the tenth."""


def neighbours(
    space: Space,
    query_codes: Integers,
    gallery_codes: Integers,
    leave_one_out: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Neighbours:
    """Look at every query x item once; without labels all codes are to be distinct."""
    queries, items = space.queries, space.gallery
    same, other = Nearest.empty(queries), Nearest.empty(queries)
    occurrences = np.zeros(items, np.int64)
    sizes = current_settings()
    tall, wide = sizes.neighbour_rows, sizes.neighbour_items
    for top in range(0, queries, tall):
        rows = np.arange(top, min(top + tall, queries))
        block = slice(top, top + len(rows))
        tile = space.block(rows)
        best = np.full((len(rows), 0), np.inf)
        best_at = np.zeros((len(rows), 0), np.int64)
        for start in range(0, items, wide):
            stop = min(start + wide, items)
            distances = tile(start, stop)
            if leave_one_out:
                own = rows[(rows >= start) & (rows < stop)]
                distances[own - top, own - start] = np.inf
            matches = query_codes[rows][:, None] == gallery_codes[None, start:stop]
            same.add(block, np.where(matches, distances, np.inf), start)
            other.add(block, np.where(matches, np.inf, distances), start)
            count = min(NEAREST + 1, distances.shape[1])
            at = np.argpartition(distances, count - 1, axis=1)[:, :count]
            best = np.hstack([best, np.take_along_axis(distances, at, axis=1)])
            best_at = np.hstack([best_at, at + start])
            keep = np.argsort(best, axis=1, kind="stable")[:, : NEAREST + 1]
            best = np.take_along_axis(best, keep, axis=1)
            best_at = np.take_along_axis(best_at, keep, axis=1)
        tied = _tied(best)
        clear = ~tied[:, None] & np.isfinite(best[:, :NEAREST])
        np.add.at(occurrences, best_at[:, :NEAREST][clear], 1)
        if tied.any():
            _count_tied(space, rows[tied], best[tied, NEAREST - 1], leave_one_out, occurrences)
        if progress is not None:
            progress(top + len(rows), queries)
    for kind in (same, other):
        for values in (kind.first, kind.second):
            met = np.isfinite(values)
            values[met] = space.in_unit(values[met])
    return Neighbours(same, other, occurrences)


def _tied(best: Reals) -> npt.NDArray[np.bool_]:
    """Which rows have an eleventh item as near as the tenth."""
    if best.shape[1] <= NEAREST:
        return np.zeros(len(best), bool)
    tied: npt.NDArray[np.bool_] = best[:, NEAREST] == best[:, NEAREST - 1]
    return tied & np.isfinite(best[:, NEAREST])


def _count_tied(
    space: Space, rows: Integers, limit: Reals, leave_one_out: bool, occurrences: Integers
) -> None:
    """Count every item that is as near as the tenth: none of them is before another."""
    tile, wide = space.block(rows), current_settings().neighbour_items
    for start in range(0, space.gallery, wide):
        stop = min(start + wide, space.gallery)
        near = tile(start, stop) <= limit[:, None]
        if leave_one_out:
            own = (rows >= start) & (rows < stop)
            near[np.flatnonzero(own), rows[own] - start] = False
        occurrences[start:stop] += np.count_nonzero(near, axis=0)
