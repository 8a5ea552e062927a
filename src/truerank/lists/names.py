"""What lists name items by: row numbers of the gallery, or its ids."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_plain
from truerank.errors import InputError, shortened
from truerank.labels import MISSING, encode, missing_rows

__all__ = ["NAMED_BY", "Names"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NAMED_BY = ("auto", "row", "id")
NOBODY = -1
"""The row of what is no gallery item."""


@dataclass(frozen=True)
class Names:
    """Finds the gallery row of what a list names."""

    items: int
    ids: list[Any] | None
    """The gallery's ids, where lists go by them."""

    @staticmethod
    def of(ids: Any, items: int, named_by: str, cells: Array) -> Names:
        """What the cells of lists are: row numbers, unless there are ids that they could be.

        Integers are row numbers where the ids are text; text of digits could be both, and is asked
        about.
        """
        whole = cells.dtype.kind in "iu"
        if not whole and cells.dtype.kind not in "OUST":
            raise InputError(
                "neighbours must be row numbers or ids, with -1 for none. Got dtype "
                f"{cells.dtype} instead; convert with neighbours.astype(numpy.int64)."
            )
        if named_by == "row" or (ids is None and named_by == "auto"):
            if not whole and not _all_whole(cells):
                some = next(cell for cell in cells.tolist() if not _is_whole(cell))
                fix = "named_by='id'" if ids is not None else "gallery_ids"
                raise InputError(
                    f"neighbours hold {shortened(some)}, which is no row number; pass {fix}."
                )
            return Names(items, None)
        if ids is None:
            raise InputError("named_by='id' needs gallery_ids, one for each gallery row.")
        known = _known(ids, items)
        text = all(isinstance(one, str) for one in known)
        if named_by == "auto" and text and (whole or _all_whole(cells)):
            if not any(_digits(one) for one in known):
                return Names(items, None)
            raise InputError(
                f"neighbours are integers and ids are text of digits ({shortened(known[0])}): say "
                "what is meant, named_by='row' or named_by='id'."
            )
        twice, number = Counter(known).most_common(1)[0]
        if number > 1:
            raise InputError(
                f"{number} gallery rows share the id {shortened(twice)}, so an id does not say "
                "which of them was returned; pass row numbers and named_by='row'."
            )
        return Names(items, known)

    def rows(self, cells: Array) -> tuple[Integers, Flags]:
        """The gallery row of each cell (NOBODY for what is none), and which cells are empty."""
        if self.ids is None:
            return self._by_number(cells)
        if cells.dtype.kind in "iu" and all(type(one) is int for one in self.ids):
            return self._by_integer(cells)
        place: dict[Any, int] = {one: row for row, one in enumerate(self.ids)}
        text = all(isinstance(one, str) for one in self.ids)
        found = np.full(len(cells), NOBODY, np.int64)
        for number, cell in enumerate(cells.tolist()):
            is_number = isinstance(cell, int) and cell.bit_length() <= 64
            name = str(cell) if text and is_number else cell
            try:
                found[number] = place.get(name, NOBODY)
            except TypeError:
                raise InputError(f"neighbours hold {shortened(cell)}, which is no id.") from None
        return found, (found == NOBODY) & _nowhere(cells)

    def _by_number(self, cells: Array) -> tuple[Integers, Flags]:
        empty = _nowhere(cells)
        if cells.dtype.kind not in "iu":
            whole = (cell if _is_row(cell, self.items) else NOBODY for cell in cells.tolist())
            cells = np.fromiter(whole, np.int64, len(cells))
        inside = ~empty & (cells >= 0) & (cells < self.items)
        rows = np.full(len(cells), NOBODY, np.int64)
        rows[inside] = cells[inside]
        return rows, empty

    def _by_integer(self, cells: Array) -> tuple[Integers, Flags]:
        assert self.ids is not None
        limits = np.iinfo(np.int64)
        small = all(limits.min <= one <= limits.max for one in self.ids)
        if not small or cells.dtype == np.uint64:  # numpy would compare them as floats
            row = Names(self.items, self.ids).rows(cells.astype(object))[0]
            return row, (row == NOBODY) & _nowhere(cells)
        known = np.array(self.ids, np.int64)
        order = np.argsort(known, kind="stable")
        at = np.minimum(np.searchsorted(known[order], cells), len(known) - 1)
        row = order[at]
        same = known[row] == cells
        return np.where(same, row, NOBODY), ~same & _nowhere(cells)


def _known(ids: Any, items: int) -> list[Any]:
    """The ids of the gallery, one for each row."""
    encoded = encode((ids,), ("gallery_ids",))
    codes = encoded.codes[0]
    if len(codes) != items:
        raise InputError(f"gallery_ids must have one value a row ({items}). Got {len(codes)}.")
    if (codes == MISSING).any():
        raise InputError(f"None or NaN in gallery_ids {missing_rows(codes)}; give each a value.")
    return [as_plain(encoded.values[code]) for code in codes.tolist()]


def _nowhere(cells: Array) -> Flags:
    """Cells that say that nothing was returned there."""
    if cells.dtype.kind == "u":  # -1 as an unsigned number
        return np.asarray(cells == np.iinfo(cells.dtype).max)
    if cells.dtype.kind == "i":
        return np.asarray(cells == -1)
    return np.array([_is_none(cell) for cell in cells.tolist()], bool)


def _is_none(cell: Any) -> bool:
    """-1, None, NaN or an empty text."""
    if cell is None or isinstance(cell, str):
        return not cell
    return isinstance(cell, (int, float)) and (cell == -1 or cell != cell)


def _is_whole(cell: Any) -> bool:
    return _is_none(cell) or (isinstance(cell, int) and not isinstance(cell, bool))


def _is_row(cell: Any, items: int) -> bool:
    return isinstance(cell, int) and 0 <= cell < items


def _all_whole(cells: Array) -> bool:
    return cells.dtype.kind == "O" and all(_is_whole(cell) for cell in cells.tolist())


def _digits(text: str) -> bool:
    return text.isdecimal() and text.isascii()
