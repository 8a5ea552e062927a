"""Operating points of all pairs and without each fold, from which metrics are computed again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Points"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


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

    def _some(self, points: Integers) -> Points:
        true, false = self.true[:, points], self.false[:, points]
        return Points(self.at[points], true, false, self.positives, self.negatives)
