"""The curves of verification without each fold: read off the operating points without it.

ROC and DET move at a rate of false accepts, as tar@far does; precision at a recall; F1 at a
threshold; a histogram's bars between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core.curve import SECOND, Curve
from truerank.core.curve_moves import CurveMoves
from truerank.families.verification.points import Points, read_rows

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
    like: str | None
    rises: int
    without: Reals
    """(columns of folds, points): NaN where there are too few negatives."""
    sparse: npt.NDArray[np.bool_] | None = None
    bare: npt.NDArray[np.bool_] | None = None
    before: str = ""

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
            before=self.before,
        )


def moved_curves(
    points: Points, curves: Mapping[str, Curve], negatives: int
) -> dict[str, tuple[MovedCurve, ...]]:
    """The curves that operating points tell of, by name; `negatives` is the number of trials."""
    found: dict[str, tuple[MovedCurve, ...]] = {}
    if "scores" in curves:
        found["scores"] = _moved_histogram(points, curves["scores"])
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
            found[name] = (MovedCurve(column, like, rises, values, sparse, bare),)
    return found


def _moved_histogram(points: Points, curve: Curve) -> tuple[MovedCurve, ...]:
    """The bars of mates and those of others."""
    borders = np.append(curve["from"][:1], curve["distance"])
    found = []
    for column, rates, before in (("mates", points.true, ""), ("others", points.false, SECOND)):
        upto = _at_thresholds(points, rates, borders, ends_at=borders[-1])
        upto[:, 0], upto[:, -1] = 0.0, 1.0  # the first bin holds what is nearer, the last the rest
        rows = np.diff(upto, axis=1)
        values = curve[column] + (rows[1:] - rows[0])
        found.append(MovedCurve(column, None, 0, values, before=before))
    return tuple(found)


def _at_thresholds(
    points: Points, rates: Reals, thresholds: Reals, ends_at: float | None = None
) -> Reals:
    """Rates at some thresholds, a row for all pairs and one without each fold.

    Everything is accepted at `ends_at`. Without it, where the last cut is: that may be the farthest
    positive, or a threshold beyond all distances that somebody asked for.
    """
    sign = -1.0 if points.at[0] > points.at[-1] else 1.0  # similarities fall along the points
    wanted, at = sign * thresholds, sign * points.at
    if ends_at is not None:
        at = np.append(np.minimum(at[:-1], sign * ends_at), sign * ends_at)
    return read_rows(rates, np.interp(wanted, at, np.arange(len(at), dtype=np.float64)))


def _accepted(points: Points, curve: Curve) -> Reals:
    """TAR at each FAR of the curve, a row for all pairs and one without each fold."""
    return points.true_at(curve["far"])


def _rejected(points: Points, curve: Curve) -> Reals:
    return 1 - _accepted(points, curve)


def _precision(points: Points, curve: Curve) -> Reals:
    """Precision at each recall of the curve."""
    rows = zip(points.true, points.false, strict=True)
    false = np.stack([np.interp(curve["recall"], true, false) for true, false in rows])
    return _share(curve["recall"] * points.positives, false * points.negatives)


def _f1(points: Points, curve: Curve) -> Reals:
    """F1 at each threshold of the curve."""
    true = _at_thresholds(points, points.true, curve["threshold"]) * points.positives
    false = _at_thresholds(points, points.false, curve["threshold"]) * points.negatives
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
