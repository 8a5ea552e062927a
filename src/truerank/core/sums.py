"""Sums over rankings without ties, from which metrics make their values.

What holds such rankings (a GPU, where rows have many relevant items) offers these sums by the
operations of the metrics' own kernels, in the same order: values do not depend on where they are
taken.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["RankedSums"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class RankedSums(Protocol):
    """Sums over the rankings of queries whose relevant items tie with nothing."""

    def __len__(self) -> int: ...

    @property
    def items(self) -> int:
        """Ranks of each list, those of items that cannot be ranked included."""

    @property
    def totals(self) -> Integers:
        """Relevant items of each query by grade."""

    @property
    def mates(self) -> Integers:
        """R of each query."""

    @property
    def ends(self) -> tuple[Integers, Integers]:
        """Ranks, from 0, of the first and of the last relevant item."""

    def found(self, cut: Integers) -> Integers:
        """Relevant items among the first `cut` of each ranking."""

    def precision_sum(self, cut: Integers) -> tuple[Reals, Reals]:
        """Precisions at relevant ranks up to the cut, as a sum in two parts."""

    def weighted_precision_sum(
        self, place: npt.NDArray[np.int32], value: Reals, value_top: Reals, value_low: Reals
    ) -> tuple[Reals, Reals]:
        """Precisions at relevant ranks where items count by their relevance: a sum in two parts.

        `place` orders each query's grades by rising relevance; the values are the relevance of
        each place, its upper bits and its low part.
        """

    def discounted(self, count: int, cut: int, tables: tuple[Reals, Reals]) -> tuple[Reals, Reals]:
        """Discounts of relevant ranks, added up by grade, in two parts."""

    def intersected(self, tables: tuple[Reals, Reals]) -> tuple[Reals, Reals, Integers]:
        """Overlaps with the best list, weighted by harmonic sums, in two parts; and those at the
        last depth."""
