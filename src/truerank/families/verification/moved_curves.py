"""The curves of verification without each fold: read off the operating points without it.

ROC and DET move at a rate of false accepts, as tar@far does; precision at a recall; F1 at a
threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.curve_moves import CurveMoves
from truerank.families.verification.points import Points

__all__ = ["MovedCurve", "moved_curves"]

Reals = npt.NDArray[np.float64]
FEWEST_BELOW = 10
"""With fewer negatives accepted than this, a curve over their rate has no simultaneous band."""
FEWEST_ALONE = 20
"""With fewer, a score at that rate has no interval."""
FEWEST_MISSED = 5
"""With fewer positives accepted, or rejected, than this, how a curve would move is not known."""


@dataclass(frozen=True)
class MovedCurve:
    """A curve of verification without each fold, of whatever kind."""

    column: str
    like: str
    rises: int
    without: Reals
    """(columns of folds, points): NaN where there are too few negatives."""
    sparse: npt.NDArray[np.bool_] | None
    bare: npt.NDArray[np.bool_] | None

    def moves(self, values: Reals, noise: Reals | None = None) -> CurveMoves:
        """The moves without some of the folds."""
        return CurveMoves(
            self.column,
            self.like,
            values,
            noise,
            sparse=self.sparse,
            bare=self.bare,
            rises=self.rises,
        )


def moved_curves(
    points: Points, curves: Mapping[str, Curve], negatives: int
) -> dict[str, MovedCurve]:
    """The curves that operating points tell of, by name; `negatives` is the number of trials."""
    found = {}
    for name, (column, like, rises, read) in _READ.items():
        if name in curves:
            curve = curves[name]
            rows = read(points, curve)
            values = curve[column] + (rows[1:] - rows[0])
            sparse = bare = None
            if "far" in curve:  # a point stands for all rates up to that of the next one
                reached = np.append(curve["far"][1:], np.inf) * negatives
                values[:, reached < FEWEST_BELOW] = np.nan
                away = np.minimum(curve[column], 1 - curve[column]) * points.positives[0]
                sparse = away < FEWEST_MISSED
                bare = reached < FEWEST_ALONE
            found[name] = MovedCurve(column, like, rises, values, sparse, bare)
    return found


def _accepted(points: Points, curve: Curve) -> Reals:
    """TAR at each FAR of the curve, a row for all pairs and one without each fold."""
    rows = zip(points.false, points.true, strict=True)
    return np.stack([np.interp(curve["far"], false, true) for false, true in rows])


def _rejected(points: Points, curve: Curve) -> Reals:
    return 1 - _accepted(points, curve)


def _precision(points: Points, curve: Curve) -> Reals:
    """Precision at each recall of the curve."""
    rows = zip(points.true, points.false, strict=True)
    false = np.stack([np.interp(curve["recall"], true, false) for true, false in rows])
    return _share(curve["recall"] * points.positives, false * points.negatives)


def _f1(points: Points, curve: Curve) -> Reals:
    """F1 at each threshold of the curve."""
    sign = -1.0 if points.at[0] > points.at[-1] else 1.0  # similarities fall along the points
    wanted, at = sign * curve["threshold"], sign * points.at
    true = np.stack([np.interp(wanted, at, row) for row in points.true]) * points.positives
    false = np.stack([np.interp(wanted, at, row) for row in points.false]) * points.negatives
    return _share(2 * true, false + points.positives - true)


def _share(part: Reals, rest: Reals) -> Reals:
    whole = part + rest
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


_READ: dict[str, tuple[str, str, int, Callable[[Points, Curve], Reals]]] = {
    "roc": ("tar", "tar", 1, _accepted),
    "det": ("frr", "fnmr", -1, _rejected),
    "pr": ("precision", "best_f1", 0, _precision),
    "f1": ("f1", "best_f1", 0, _f1),
}
"""By the curve's name: the column that moves, the metric it is, its direction, and its values."""
