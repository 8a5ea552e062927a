"""A curve: a mapping from the names of its columns to arrays of one length, the abscissa first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy.typing as npt

__all__ = ["ENDS", "POINTS", "Curve"]

ENDS = ("lower", "expected", "upper")
POINTS = 1000
"""Curves over an axis have one more point than this."""


class Curve(Mapping[str, npt.NDArray[Any]]):
    """Columns of a curve by name.

    Examples
    --------
    >>> import truerank
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> r.curve("cmc", ranks=3)["lower"].tolist()
    [0.75, 0.75, 1.0]
    """

    def __init__(self, name: str, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        self.name, self._columns = name, dict(columns)

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        points = len(next(iter(self._columns.values())))
        return f"<curve {self.name}: {', '.join(self)}; {points:,} points>"
