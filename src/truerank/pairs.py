"""Lists of (query, item) pairs, and where they come from: equal codes or (Q, G) masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array, numbered, stable_order
from truerank.errors import InputError

__all__ = ["CodeIndex", "Codes", "Judgements", "Mask", "PairList", "count_matches"]

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PairList:
    """Pairs sorted by query; queries are numbered within their block."""

    query: Codes
    item: Codes

    def __len__(self) -> int:
        return len(self.query)

    def where(self, chosen: npt.NDArray[np.bool_]) -> PairList:
        """The chosen pairs."""
        return PairList(self.query[chosen], self.item[chosen])

    def isin(self, other: PairList, items: int) -> npt.NDArray[np.bool_]:
        """Which of these pairs occur in the other list."""
        return np.isin(self.query * items + self.item, other.query * items + other.item)

    @staticmethod
    def empty() -> PairList:
        """A list without pairs."""
        return PairList(np.empty(0, np.int64), np.empty(0, np.int64))

    @staticmethod
    def concatenate(lists: Sequence[PairList]) -> PairList:
        """All pairs of all lists, list after list."""
        return PairList(
            np.concatenate([pairs.query for pairs in lists]),
            np.concatenate([pairs.item for pairs in lists]),
        )


class CodeIndex:
    """Finds the items that carry a code; no item carries a negative code."""

    def __init__(self, codes: Codes) -> None:
        order = stable_order(codes)
        self._items = order[np.count_nonzero(codes < 0) :]
        highest = int(codes.max()) if codes.size else -1
        counts = np.bincount(codes[codes >= 0], minlength=highest + 1)
        self._start = np.concatenate([[0], np.cumsum(counts)])

    def pairs(self, codes: Codes) -> PairList:
        """For each query's code, all items that carry it."""
        known = (codes >= 0) & (codes < len(self._start) - 1)
        start = self._start[np.where(known, codes, 0)]
        stop = self._start[np.where(known, codes + 1, 0)]
        query, position = _expand(start, np.maximum(start, stop))
        return PairList(query, self._items[position])


class Mask:
    """A (Q, G) matrix of grades, read as pairs a block of rows at a time; zero means no pair.

    Dense matrices stay as they are, sparse ones are kept by row: the pairs of query q are
    item[start[q]:start[q + 1]].
    """

    names: tuple[list[str], list[str]] | None = None
    """The ids of queries and items, where nothing else names them."""

    def __init__(self, matrix: Any, name: str) -> None:
        self.name = name
        if hasattr(matrix, "tocsr"):
            rows = matrix.tocsr().copy()
            rows.sum_duplicates()
            rows.eliminate_zeros()
            self._dense = None
            self._start, self._item = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
            self._grade = rows.data
            shape = rows.shape
        else:
            self._dense = self._grade = as_array(matrix, name)
            shape = self._dense.shape
        if len(shape) != 2:
            raise InputError(
                f"{name} must have shape (queries, gallery). Got shape {shape} instead."
            )
        self.shape: tuple[int, int] = (int(shape[0]), int(shape[1]))
        kind = self._grade.dtype.kind
        if kind not in "biuf":
            raise InputError(
                f"{name} must hold bool or numbers. Got dtype {self._grade.dtype} instead."
            )
        if kind == "f" and not np.isfinite(self._grade).all():
            raise InputError(f"{name} holds NaN or infinity; use 0 for pairs that are not judged.")
        if kind in "if" and self._grade.size and self._grade.min() < 0:
            raise InputError(f"{name} holds negative entries; use 0 for pairs that do not count.")

    @property
    def dense(self) -> bool:
        """Whether it holds a number for each query and item."""
        return self._dense is not None

    @staticmethod
    def of(value: Any, name: str) -> Mask | None:
        """A mask from what a user passes; None stays None, a mask stays itself."""
        return value if value is None or isinstance(value, Mask) else Mask(value, name)

    @staticmethod
    def of_pairs(
        name: str, shape: tuple[int, int], pairs: PairList, grade: npt.NDArray[Any]
    ) -> Mask:
        """A mask from the pairs it holds, sorted by query."""
        mask = Mask.__new__(Mask)
        mask.name, mask.shape, mask._dense = name, shape, None
        counts = np.bincount(pairs.query, minlength=shape[0])
        mask._start = np.concatenate([[0], np.cumsum(counts)])
        mask._item, mask._grade = pairs.item, grade
        return mask

    def pairs(self, rows: Codes, columns: Codes | None) -> PairList:
        """The pairs of these rows; `columns` renumbers the items that take part."""
        if self._dense is not None:
            query, item = np.nonzero(self._dense[rows])
        else:
            query, position = _expand(self._start[rows], self._start[rows + 1])
            item = self._item[position]
        pairs = PairList(query, item)
        if columns is None:
            return pairs
        number = self._renumber(columns)
        kept = pairs.where(number[item] >= 0)
        return PairList(kept.query, number[kept.item])

    def _renumber(self, columns: Codes) -> Codes:
        number = np.full(self.shape[1], -1, np.int64)
        number[columns] = np.arange(len(columns))
        return number

    def where_equal(self, query: Codes, item: Codes) -> Mask:
        """The pairs of this mask whose two codes are equal."""
        rows = np.arange(self.shape[0])
        pairs = self.pairs(rows, None)
        same = query[pairs.query] == item[pairs.item]
        return Mask.of_pairs(self.name, self.shape, pairs.where(same), same[same])

    def distinct(self) -> npt.NDArray[Any]:
        """The distinct grades above zero, ascending."""
        values = np.unique(self._grade)
        above: npt.NDArray[Any] = values[values > 0]
        return above

    def grades(self, rows: Codes, columns: Codes | None) -> npt.NDArray[Any]:
        """The grades of `pairs(rows, columns)`."""
        if self._dense is not None:
            block = self._dense[rows] if columns is None else self._dense[np.ix_(rows, columns)]
            graded: npt.NDArray[Any] = block[np.nonzero(block)]
            return graded
        position = _expand(self._start[rows], self._start[rows + 1])[1]
        if columns is not None:
            position = position[self._renumber(columns)[self._item[position]] >= 0]
        return np.asarray(self._grade[position])

    def records(self, names: tuple[list[str], list[str]] | None) -> list[str]:
        """Each pair with its grade as text, by the names of queries and items if there are any."""
        records = []
        for start in range(0, self.shape[0], 1024):
            rows = np.arange(start, min(start + 1024, self.shape[0]))
            pairs = self.pairs(rows, None)
            grades = self.grades(rows, None).tolist()
            for query, item, grade in zip(
                (pairs.query + start).tolist(), pairs.item.tolist(), grades, strict=True
            ):
                pair = (query, item) if names is None else (names[0][query], names[1][item])
                records.append(repr((*pair, grade)))
        return records


class Judgements(Mask):
    """The mask of what was judged relevant, which knows what else was judged."""

    judged: Mask
    """Every judged pair: 1 if it was judged irrelevant, else its grade plus 1."""

    @staticmethod
    def of_grades(
        shape: tuple[int, int],
        pairs: PairList,
        grade: npt.NDArray[Any],
        names: tuple[list[str], list[str]] | None = None,
    ) -> Judgements:
        """Judgements from their pairs, sorted by query, and a grade for each; 0 is irrelevant."""
        found = Judgements.__new__(Judgements)
        relevant = grade > 0
        some = Mask.of_pairs("relevance", shape, pairs.where(relevant), grade[relevant])
        vars(found).update(vars(some))
        found.judged = Mask.of_pairs("judgements", shape, pairs, grade + 1)
        found.names = names
        return found


def _expand(start: Codes, stop: Codes) -> tuple[Codes, Codes]:
    """All positions of the ranges start[q]:stop[q], and the q of each."""
    counts = stop - start
    query = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    return query, np.arange(len(query)) - first[query] + start[query]


def count_matches(query: Sequence[Codes], gallery: Sequence[Codes]) -> Codes:
    """For each query row, the number of gallery rows that agree in every column."""
    for left, right in zip(query, gallery, strict=True):
        only = _only_row(left, right)
        if only is not None:
            found = only >= 0
            for mine, others in zip(query, gallery, strict=True):
                found &= mine == others[only]
            return found.astype(np.int64)
    joined = np.concatenate([query[0], gallery[0]])
    for left, right in zip(query[1:], gallery[1:], strict=True):
        more = np.concatenate([left, right])
        width = int(more.max()) + 2
        joined = numbered(joined)[1] * width + more + 1
    numbers = numbered(joined)[1]
    split = len(query[0])
    counts = np.bincount(numbers[split:], minlength=int(numbers.max()) + 1)
    return counts[numbers[:split]].astype(np.int64)


def _only_row(query: Codes, gallery: Codes) -> Codes | None:
    """The one gallery row with each query's code, -1 where there is none; None where a code comes
    twice (or is missing, or codes are far apart)."""
    if not (query.size and gallery.size) or min(query.min(), gallery.min()) < 0:
        return None
    highest = int(max(query.max(), gallery.max()))
    if highest > 4 * (len(query) + len(gallery)):
        return None
    row = np.full(highest + 1, -1)
    row[gallery] = np.arange(len(gallery))
    if np.count_nonzero(row >= 0) < len(gallery):
        return None
    return row[query]
