"""Degenerate submissions: constant, of zeros, of repeated rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import TruerankWarning
from truerank.space import build
from truerank.space.digests import classes_of_equals
from truerank.wording import count

__all__ = ["Flaws"]


@dataclass(frozen=True)
class Flaws:
    """What is degenerate about the rows of a submission."""

    rows: int
    distinct: int
    """Rows that differ, as far as the distance can tell."""
    zero: int
    """Rows of zeros alone."""
    equal: int
    """Rows that equal another."""

    @staticmethod
    def of(rows: npt.NDArray[Any], distance: str) -> Flaws:
        """Look at all rows; what is not finite is refused."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)
            space = build(distance, rows)
        number, times = classes_of_equals(space.query_digests)
        equal = int(np.count_nonzero(times[number] > 1))
        return Flaws(len(rows), len(times), space.facts.zero_rows, equal)

    def words(self) -> list[str]:
        """Each flaw in a few words; nothing for a submission without any.

        Examples
        --------
        >>> Flaws(rows=4, distinct=3, zero=0, equal=2).words()
        ['2 of 4 rows equal another']
        """
        if self.distinct == 1 and self.rows > 1:
            return ["all rows are zero" if self.zero else "constant: all rows are equal"]
        found = []
        if self.zero:
            found.append(f"{count(self.zero, 'row')} of zeros")
        if self.equal:
            found.append(f"{self.equal:,} of {self.rows:,} rows equal another")
        return found
