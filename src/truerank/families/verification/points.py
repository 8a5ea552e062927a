"""Operating points without each share of the classes: what metrics are computed from again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Points"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """Operating points by threshold; in the first row of all pairs, then without each share."""

    at: Reals
    """Thresholds in the user's unit; the ends, nothing and everything, repeat their neighbours."""
    true: Reals
    """(1 + columns, points): share of positives accepted."""
    false: Reals
    """The same of negatives."""
    positives: Reals
    """(1 + columns, 1): how many there are."""
    negatives: Reals

    def at_cuts(self, cuts: Integers) -> Points:
        """At some of the cuts, and at the ends."""
        return self._some(np.concatenate([[0], cuts + 1, [len(self.at) - 1]]))

    def at_cut(self, cut: int) -> Points:
        """At one cut alone."""
        return self._some(np.array([cut + 1]))

    def _some(self, points: Integers) -> Points:
        true, false = self.true[:, points], self.false[:, points]
        return Points(self.at[points], true, false, self.positives, self.negatives)
