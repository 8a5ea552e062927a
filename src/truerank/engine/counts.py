"""Counts: the mergeable result of looking at part of the gallery.

For each query, its distinct relevant distances u_1 < u_2 < ... are known beforehand. A gallery
tile adds, for each of them, how many items lie strictly between u_{g-1} and u_g and how many lie
exactly at u_g. These are integers: tiles add up in any order and any grouping to the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.errors import ExactnessError

__all__ = ["Counts", "TieGroups"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TieGroups:
    """Everything a ranking metric needs: the tie groups that hold relevant items.

    Query q owns the groups offsets[q] to offsets[q + 1], nearest first. A group has `before` items
    strictly nearer, `size` items in it and `relevant` >= 1 relevant ones among them.
    """

    offsets: Integers
    before: Integers
    size: Integers
    relevant: Integers
    candidates: Integers
    """Per query: gallery items that can be ranked, relevant or not."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def mates(self) -> Integers:
        """R of each query."""
        return self.per_query(self.relevant)

    def per_query(self, values: Integers) -> Integers:
        """Sums of a per-group quantity."""
        if not values.size:
            return np.zeros(len(self), np.int64)
        return np.add.reduceat(values, self.offsets[:-1])

    @property
    def ambiguous(self) -> npt.NDArray[np.bool_]:
        """Groups whose order inside matters: relevant and other items tied."""
        return self.relevant < self.size

    @staticmethod
    def single(mates: Integers, candidates: Integers) -> TieGroups:
        """One tie group of everything per query: what a scorer without any knowledge gives."""
        count = len(mates)
        return TieGroups(
            np.arange(count + 1), np.zeros(count, np.int64), candidates, mates, candidates
        )


@dataclass
class Counts:
    """Integer counts over the part of the gallery seen so far."""

    offsets: Integers
    distance: npt.NDArray[np.float64]
    relevant: Integers
    between: Integers
    equal: Integers

    @staticmethod
    def frame(query: Integers, distance: npt.NDArray[np.float64], queries: int) -> Counts:
        """Empty counts for the relevant distances of each query (pairs sorted by query)."""
        sizes = np.bincount(query, minlength=queries)
        first = np.cumsum(sizes) - sizes
        width = int(sizes.max()) if sizes.size else 0
        table = np.full((queries, width), np.inf)
        table[query, np.arange(len(query)) - first[query]] = distance
        table.sort(axis=1)
        held = np.arange(width)[None, :] < sizes[:, None]
        fresh = held.copy()
        fresh[:, 1:] &= table[:, 1:] != table[:, :-1]
        start = np.flatnonzero(fresh[held])
        relevant = np.diff(np.append(start, len(query)))
        offsets = np.concatenate([[0], np.cumsum(fresh.sum(axis=1))])
        nothing = np.zeros(len(start), np.int64)
        return Counts(offsets, table[fresh], relevant, nothing, nothing.copy())

    def empty_copy(self) -> Counts:
        """The same frame with nothing counted yet."""
        zeros = np.zeros_like(self.between)
        return Counts(self.offsets, self.distance, self.relevant, zeros, zeros.copy())

    def __add__(self, other: Counts) -> Counts:
        for mine, theirs in (
            (self.offsets, other.offsets),
            (self.distance, other.distance),
            (self.relevant, other.relevant),
        ):
            if mine is not theirs and not np.array_equal(mine, theirs):
                raise ValueError("counts of different queries cannot be added")
        return Counts(
            self.offsets,
            self.distance,
            self.relevant,
            self.between + other.between,
            self.equal + other.equal,
        )

    def tie_groups(self, candidates: Integers) -> TieGroups:
        """Cumulated counts, once the whole gallery has been seen and exclusions are taken out."""
        if (self.equal < self.relevant).any() or (self.between < 0).any():
            raise ExactnessError(
                "a relevant item was not met at its own exact distance: the matrix product of this "
                "machine is not exact in float64; use another BLAS or device='reference'."
            )
        step = self.between + self.equal
        running = np.cumsum(step)
        queries = len(self.offsets) - 1
        base = np.concatenate([[0], running])[self.offsets[:-1]]
        owner = np.repeat(np.arange(queries), np.diff(self.offsets))
        before = running - self.equal - base[owner]
        return TieGroups(self.offsets, before, self.equal, self.relevant, candidates)
