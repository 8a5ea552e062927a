"""Operating points of all pairs and without each fold, from which metrics are computed again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Points", "read_rows"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
NEAR = (0.8, 1.25)
"""Shares of a rate between which many pairs say how rates, and thresholds, run at it."""


@dataclass(frozen=True)
class Points:
    """Operating points by threshold: a row for all pairs, then one without each fold."""

    at: Reals
    """Thresholds in the user's unit; the ends, nothing and everything, repeat their neighbours."""
    true: Reals
    """(1 + columns, points): share of positives accepted."""
    false: Reals
    """(1 + columns, points): share of negatives accepted."""
    positives: Reals
    """(1 + columns, 1): number of positives."""
    negatives: Reals
    """(1 + columns, 1): number of negatives."""

    def at_cuts(self, cuts: Integers) -> Points:
        """The operating points at some of the cuts, and at the ends."""
        return self._some(np.concatenate([[0], cuts + 1, [len(self.at) - 1]]))

    def at_cut(self, cut: int) -> Points:
        """The operating point at one cut."""
        return self._some(np.array([cut + 1]))

    def between(self, places: Reals) -> tuple[Reals, Reals]:
        """(1 + columns, places) each: shares of positives and of negatives accepted at places
        between two points, which are counted from 0."""
        return read_rows(self.true, places), read_rows(self.false, places)

    def true_at(self, rates: Reals) -> Reals:
        """(1 + columns, rates): share of positives accepted where negatives are at some rates.

        A threshold moves by what is accepted at it too much, or too little. Which positives lie
        next to it is an accident; so what a negative is worth is taken from all thresholds
        between four fifths and five fourths of the rate.
        """
        whole, number = self.false[0], np.arange(len(self.at), dtype=np.float64)
        true, false = self.between(np.interp(rates, whole, number))
        ends = [np.minimum(share * rates, 1.0) for share in NEAR]
        low, high = (np.interp(end, whole, self.true[0]) for end in ends)
        width = ends[1] - ends[0]
        worth = np.divide(high - low, width, out=np.zeros_like(width), where=width > 0)
        np.subtract(rates, false, out=false)
        false *= worth
        return np.add(true, false, out=true)

    def _some(self, points: Integers) -> Points:
        true, false = self.true[:, points], self.false[:, points]
        return Points(self.at[points], true, false, self.positives, self.negatives)


def read_rows(rows: Reals, places: Reals) -> Reals:
    """Every row at places between two of its numbers, which are counted from 0."""
    before = np.clip(places.astype(np.int64), 0, rows.shape[1] - 2)
    low, high = (np.take(rows, at, axis=1) for at in (before, before + 1))
    high -= low
    high *= places - before
    return np.add(low, high, out=low)
