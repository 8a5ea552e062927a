"""How a curve moves without each fold of the classes: what its confidence band is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

__all__ = ["BandMoves", "CurveMoves"]

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CurveMoves:
    """A curve without each fold, at all of its points."""

    column: str
    """The column that moves, and that the band is to surround."""
    like: str | None
    """The name of the metric that the column is at each point: the band is its interval. None for
    a share that is no metric."""
    values: Reals
    """(folds, points): the column without each fold; NaN in a point that has no band."""
    noise: Reals | None = None
    """(points,): what sampling adds to the sum of squares over the folds; None for nothing."""
    together: Reals | None = None
    """(folds, points): what tells how the points move together, where that is not `values`, in
    which the noise of single queries may hide it; NaN where a simultaneous band need not hold."""
    sparse: npt.NDArray[np.bool_] | None = None
    """Points so near an end of the range that hardly anything makes up the difference, and how the
    column would move is not known: the neighbours limit a whole monotone curve there, and the
    simultaneous band of another leaves them out."""
    bare: npt.NDArray[np.bool_] | None = None
    """Points at which a score alone would have no interval: the pointwise band leaves them out."""
    items: int | None = None
    """Of a curve over ranks: the gallery's size, which its ladder of ranks goes up to."""
    rises: int = 0
    """1 if the column never falls along the curve, -1 if it never rises, 0 if it may do both."""
    knots: npt.NDArray[np.integer] | None = None
    """The numbers of the points that all of this is of, where it is not known of every one: in
    between a band goes evenly, as far from the curve as the next ones are."""
    before: str = ""
    """What stands before the names of the band's columns, where it is a curve's second one."""

    def at(self, points: npt.NDArray[np.integer]) -> CurveMoves:
        """The moves at some points, by their numbers."""
        return replace(
            self,
            values=self.values[:, points],
            noise=None if self.noise is None else self.noise[points],
            together=None if self.together is None else self.together[:, points],
            sparse=None if self.sparse is None else self.sparse[points],
            bare=None if self.bare is None else self.bare[points],
        )


BandMoves = CurveMoves | tuple[CurveMoves, ...] | str
"""What the bands of a curve are made of, or why it has none."""
