"""Places: which row an id names, exactly or by the name of the file that it is a path to."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.errors import InputError, shortened
from truerank.labels import MISSING, encode, missing_rows

__all__ = ["Places"]


@dataclass(frozen=True)
class Places:
    """The row of each id; row numbers where there are none."""

    names: list[Any]
    by_row: bool

    @staticmethod
    def of(ids: Any, count: int) -> Places:
        """Places of so many rows.

        Examples
        --------
        >>> Places.of(["Ann/Ann_0001.jpg", "Bob/Bob_0001.jpg"], 2).find(["Bob_0001"]).tolist()
        [1]
        """
        if ids is None:
            return Places(list(range(count)), by_row=True)
        found = encode((ids,), ("ids",))
        codes = found.codes[0]
        if len(codes) != count:
            raise InputError(f"ids must have one value a row ({count}). Got {len(codes)}.")
        if (codes == MISSING).any():
            raise InputError(f"None or NaN in ids {missing_rows(codes)}; give each row its id.")
        names = [found.values[code] for code in codes.tolist()]
        if len(set(names)) != count:
            raise InputError("ids name a row twice; every embedding needs an id of its own.")
        return Places(names, by_row=False)

    def find(self, wanted: list[Any]) -> npt.NDArray[np.int64]:
        """The row of each id in a list of trials."""
        found = np.empty(len(wanted), np.int64)
        for number, name in enumerate(wanted):
            row = self._place.get(name) if isinstance(name, Hashable) else None
            if row is None and isinstance(name, str):
                row = self._stem(name)
            if row is None:
                what = "row numbers; pass the ids of the rows" if self.by_row else "ids"
                raise InputError(
                    f"trial {number} names {shortened(name)}, which is not among the {what}."
                )
            found[number] = row
        return found

    def _stem(self, name: str) -> int | None:
        rows = self._stems.get(name, [])
        if len(rows) > 1:
            shown = " and ".join(shortened(self.names[row]) for row in rows[:2])
            raise InputError(f"{shortened(name)} may be {shown}; name them by their whole ids.")
        return rows[0] if rows else None

    @cached_property
    def _place(self) -> dict[Any, int]:
        place = {name: number for number, name in enumerate(self.names)}
        if not any(isinstance(name, str) for name in self.names):  # files of trials hold text
            place |= {str(name): number for name, number in place.items()}
        return place

    @cached_property
    def _stems(self) -> dict[str, list[int]]:
        """The rows of each file name, without its folders and ending."""
        stems: dict[str, list[int]] = {}
        for row, name in enumerate(self.names):
            if isinstance(name, str):
                path = PurePosixPath(name.replace("\\", "/"))
                stems.setdefault(path.stem, []).append(row)
        return stems
