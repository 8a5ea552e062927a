"""Curve: a mapping from column names to arrays of one length, and its jackknife replicates.

The abscissa is the first column. The replicates of a curve at its points are what its
confidence band is computed from (intervals/bands.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.types import Reals

ENDS = ("lower", "expected", "upper")
POINTWISE = ("low", "high")
SIMULTANEOUS = ("simultaneous_low", "simultaneous_high")
"""Columns of confidence bands: around each point, and around all points at once."""
SECOND = "others_"
"""What stands before the names of the bands around a histogram's second column."""
POINTS = 1000
"""Curves over an axis have one more point than this."""
FIRST_RANKS = 100
"""Ranks of a CMC curve unless more are asked for."""


class Curve(Mapping[str, npt.NDArray[Any]]):
    """Columns of a curve by name.

    Examples
    --------
    >>> import truerank
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> r.curve("cmc", ranks=3)["lower"].tolist()
    [0.75, 0.75, 1.0]
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, npt.NDArray[Any]],
        band_reason: str | None = None,
    ) -> None:
        self.name, self._columns = name, dict(columns)
        self.band_reason = band_reason
        """Why there is no confidence band, if one was asked for."""

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def with_band(self, kind: str | None) -> Curve:
        """The curve with one of its bands, pointwise or simultaneous, as low and high, or none."""
        columns = {name: values for name, values in self.items() if not is_band(name)}
        chosen = {None: (), "pointwise": POINTWISE, "simultaneous": SIMULTANEOUS}[kind]
        for before in ("", SECOND):
            if all(before + name in self for name in chosen):
                names = zip(POINTWISE, chosen, strict=False)
                columns |= {before + as_: self[before + name] for as_, name in names}
        return Curve(self.name, columns, self.band_reason)

    def without_band(self, reason: str | None) -> Curve:
        """The curve with the reason why it has no band."""
        return Curve(self.name, self, reason)

    def __repr__(self) -> str:
        points = len(next(iter(self._columns.values())))
        return f"<curve {self.name}: {', '.join(self)}; {points:,} points>"


def is_band(column: str) -> bool:
    """Whether a column is an edge of a band."""
    return column.removeprefix(SECOND) in (*POINTWISE, *SIMULTANEOUS)


def rank_ladder(last: int) -> npt.NDArray[np.int64]:
    """Ranks that are enough to draw a curve up to the last: all of the first, then ever fewer."""
    steps = FIRST_RANKS * 2.0 ** (np.arange(1, 513) / 16)
    more = np.rint(np.minimum(steps, last)).astype(np.int64)
    return np.unique([*range(1, FIRST_RANKS + 1), *more[more > FIRST_RANKS]])


# How a curve moves without each fold of the classes: what its confidence band is made of.


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
    column would move is not known: the neighbors limit a whole monotone curve there, and the
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
