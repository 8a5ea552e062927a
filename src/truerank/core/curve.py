"""A curve: a mapping from the names of its columns to arrays of one length, the abscissa first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "ENDS",
    "FIRST_RANKS",
    "POINTS",
    "POINTWISE",
    "SECOND",
    "SIMULTANEOUS",
    "Curve",
    "is_band",
    "rank_ladder",
]

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
