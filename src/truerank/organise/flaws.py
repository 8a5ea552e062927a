"""Degenerate submissions: constant, of zeros, of repeated rows."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import TruerankWarning
from truerank.space import build
from truerank.space.digests import classes_of_equals
from truerank.wording import count

__all__ = ["Flaws", "usually_repeated"]

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Flaws:
    """What is degenerate about the rows of a submission."""

    repeated: Flags
    """Whether each row equals another, as far as the distance can tell."""
    constant: bool
    """Whether all rows are equal."""
    zero: int
    """Rows of zeros alone."""

    @property
    def rows(self) -> int:
        """Submitted rows."""
        return len(self.repeated)

    @staticmethod
    def of(rows: npt.NDArray[Any], distance: str) -> Flaws:
        """Look at all rows; what is not finite is refused."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)
            space = build(distance, rows)
        number, times = classes_of_equals(space.query_digests)
        constant = len(times) == 1 and len(rows) > 1
        return Flaws(times[number] > 1, constant, space.facts.zero_rows)

    def reordered(self, place: npt.NDArray[np.int64] | None) -> Flaws:
        """The same of rows in another order; None leaves them as they are."""
        return self if place is None else replace(self, repeated=self.repeated[place])

    def words(self, items: Flags | None = None) -> list[str]:
        """Each flaw in a few words; nothing for a submission without any.

        `items` are rows whose items are equal themselves, so that equal rows are no flaw there.

        Examples
        --------
        >>> flaws = Flaws(np.array([True, True, False, False]), constant=False, zero=0)
        >>> flaws.words(), flaws.words(np.array([True, True, False, False]))
        (['2 of 4 rows equal another'], [])
        """
        if self.constant:
            return ["all rows are zero" if self.zero else "constant: all rows are equal"]
        found = []
        if self.zero:
            found.append(f"{count(self.zero, 'row')} of zeros")
        equal = np.count_nonzero(self.repeated if items is None else self.repeated & ~items)
        if equal:
            found.append(f"{equal:,} of {self.rows:,} rows equal another")
        return found


def usually_repeated(submissions: Collection[Flaws]) -> Flags | None:
    """Rows that equal another in most of the submissions that are not constant.

    Equal test images have equal rows in every honest submission: that is said of the data. None
    where all submissions are constant.
    """
    repeated = [flaws.repeated for flaws in submissions if not flaws.constant]
    return 2 * np.sum(repeated, axis=0) > len(repeated) if repeated else None
