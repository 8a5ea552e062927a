"""Means over queries, or over classes, at many thresholds: exact sums, rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["ExactMean"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class ExactMean:
    """The mean of some queries' values, as an evaluation takes it.

    Classes of one size weigh alike, so their values are added up in one bucket.
    """

    def __init__(
        self, codes: Integers, counts: npt.NDArray[np.bool_], *, by_class: bool = False
    ) -> None:
        self._rows = np.flatnonzero(counts)
        self.bucket = np.zeros(len(codes), np.int64)
        self._weights = [Fraction(1, max(1, len(self._rows)))]
        if by_class and len(self._rows):
            _, number, size = np.unique(codes[counts], return_inverse=True, return_counts=True)
            sizes = np.unique(size)
            self.bucket[self._rows] = np.searchsorted(sizes, size[number])
            self._weights = [Fraction(1, one * len(size)) for one in sizes.tolist()]

    @property
    def buckets(self) -> int:
        """How many sums there are."""
        return len(self._weights)

    def up_to(self, distances: Reals, cuts: Reals) -> list[float | None]:
        """The share of queries whose distance is at most each cut; None if no query counts."""
        if not len(self._rows):
            return [None] * len(cuts)
        found = np.empty((self.buckets, len(cuts)), np.int64)
        for bucket in range(self.buckets):
            mine = self._rows[self.bucket[self._rows] == bucket]
            found[bucket] = np.searchsorted(np.sort(distances[mine]), cuts, side="right")
        return [self._mean([*map(Fraction, column)]) for column in found.T.tolist()]

    def of_limbs(self, limbs: Integers) -> list[float | None]:
        """Means from sums (bucket, cut, limb), each limb 32 bits behind the one before."""
        if not len(self._rows):
            return [None] * limbs.shape[1]
        count = limbs.shape[2]
        whole = [
            [sum(int(one) << (32 * (count - 1 - n)) for n, one in enumerate(cell)) for cell in row]
            for row in limbs.tolist()
        ]
        one = 1 << (32 * count)
        return [
            self._mean([Fraction(total, one) for total in column])
            for column in zip(*whole, strict=True)
        ]

    def _mean(self, sums: list[Fraction]) -> float:
        total = sum(
            (part * weight for part, weight in zip(sums, self._weights, strict=True)), Fraction(0)
        )
        return total.numerator / total.denominator
