"""Views of a task: relevant items with grades, and pairs excluded by id, camera or junk.

Relevance comes from equal labels, from the common path in a tree of labels, or from judgements.
Grades begin at 1 where there is more than one kind of relevant item. Lists of (query, item)
pairs come from equal codes or from (Q, G) masks. The excluded pairs are the same in every view
of a task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array, numbered, stable_order
from truerank._util.errors import InputError
from truerank.task.relevance_kernels import common_paths

Rows = npt.NDArray[np.int64]
_CHUNK = 1024
_NO_MATCH = -2
"""The code of a query's missing label, which is not equal to an item's missing label."""
MOST_GRADES = 100


@dataclass(frozen=True)
class BlockPairs:
    """The relevant and the excluded gallery items of a block of queries, numbered from 0."""

    relevant: PairList
    grade: npt.NDArray[np.int64]
    """Grade of each relevant pair, from 1."""
    excluded: PairList


@dataclass(frozen=True)
class Equality:
    """A rule by codes: a query and an item with equal codes never meet."""

    query: Codes
    item: Codes
    index: CodeIndex

    @staticmethod
    def of(query: Codes, item: Codes) -> Equality:
        """The rule of these codes, with an index of the items."""
        return Equality(query, item, CodeIndex(item))

    def holds(self, rows: Rows, pairs: PairList) -> npt.NDArray[np.bool_]:
        """Which pairs the rule excludes."""
        code = self.query[rows][pairs.query]
        same: npt.NDArray[np.bool_] = (code == self.item[pairs.item]) & (code >= 0)
        return same


class Exclusions:
    """Pairs that never meet: shared ids, same label and group, and masks."""

    def __init__(self, rules: list[Equality], masks: list[Mask], columns: Rows | None) -> None:
        self.rules, self.masks, self._columns = rules, masks, columns

    def masked(self, rows: Rows) -> list[PairList]:
        """The pairs of each mask."""
        return [mask.pairs(rows, self._columns) for mask in self.masks]

    def pairs(self, rows: Rows, items: int) -> PairList:
        """Every excluded pair of these queries, once."""
        found: list[PairList] = []
        for number, rule in enumerate(self.rules):
            pairs = rule.index.pairs(rule.query[rows])
            found.append(pairs.where(~self._by_rules(rows, pairs, number)))
        for masked in self.masked(rows):
            fresh = ~self._by_rules(rows, masked, len(self.rules))
            for earlier in found[len(self.rules) :]:
                fresh &= ~masked.isin(earlier, items)
            found.append(masked.where(fresh))
        return PairList.concatenate(found) if found else PairList.empty()

    def covers(self, rows: Rows, pairs: PairList, items: int) -> npt.NDArray[np.bool_]:
        """Which of these pairs are excluded."""
        out = self._by_rules(rows, pairs, len(self.rules))
        for masked in self.masked(rows):
            out |= pairs.isin(masked, items)
        return out

    def _by_rules(self, rows: Rows, pairs: PairList, first: int) -> npt.NDArray[np.bool_]:
        out = np.zeros(len(pairs), bool)
        for rule in self.rules[:first]:
            out |= rule.holds(rows, pairs)
        return out


class View(ABC):
    """One notion of relevance over the queries and the gallery items that take part."""

    grades = 1
    """Number of distinct grades."""

    def __init__(self, exclusions: Exclusions, queries: int, items: int) -> None:
        self.exclusions, self.queries, self.items = exclusions, queries, items
        self.mates = self._count_mates()
        """Number of relevant items of every query."""

    @abstractmethod
    def candidates(self, rows: Rows) -> PairList:
        """Pairs that are relevant unless excluded."""

    def kinds(self, rows: Rows) -> Codes:
        """A number for each query; queries of one kind are best done one after the other."""
        return np.zeros(len(rows), np.int64)

    def grade(self, rows: Rows, pairs: PairList) -> npt.NDArray[np.int64]:
        """Grade of each pair."""
        return np.ones(len(pairs), np.int64)

    def grade_rows(self, rows: Rows) -> npt.NDArray[np.int8]:
        """The grade of every item for these queries, 0 if irrelevant; excluded ones have theirs."""
        pairs = self.candidates(rows)
        grades = np.zeros((len(rows), self.items), np.int8)
        grades[pairs.query, pairs.item] = self.grade(rows, pairs)
        return grades

    def block(self, rows: Rows) -> BlockPairs:
        """The relevant and the excluded items of these queries."""
        pairs = self.candidates(rows)
        grade = self.grade(rows, pairs)
        kept = ~self.exclusions.covers(rows, pairs, self.items)
        excluded = self.exclusions.pairs(rows, self.items)
        return BlockPairs(pairs.where(kept), grade[kept], excluded)

    def relevant(self, rows: Rows) -> PairList:
        """The relevant items of these queries, without their grades."""
        pairs = self.candidates(rows)
        return pairs.where(~self.exclusions.covers(rows, pairs, self.items))

    def _count_mates(self) -> Codes:
        counts = np.zeros(self.queries, np.int64)
        for start in range(0, self.queries, _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, self.queries))
            counts[rows] = np.bincount(self.relevant(rows).query, minlength=len(rows))
        return counts


class LabelView(View):
    """The view in which items with the query's label are relevant."""

    def __init__(self, query: Codes, item: Codes, exclusions: Exclusions) -> None:
        self.query, self.item = query, item
        self._index = CodeIndex(item)
        super().__init__(exclusions, len(query), len(item))

    def candidates(self, rows: Rows) -> PairList:
        """See View."""
        return self._index.pairs(self.query[rows])

    def kinds(self, rows: Rows) -> Codes:
        """See View: counts of one class stay in the cache."""
        return self.query[rows]

    def _count_mates(self) -> Codes:
        """See View: without masks, by inclusion and exclusion over the rules, listing no pair."""
        if self.exclusions.masks:
            return super()._count_mates()
        counts = count_matches([self.query], [self.item])
        rules = self.exclusions.rules
        for some in range(1, 1 << len(rules)):
            chosen = [rule for bit, rule in enumerate(rules) if some >> bit & 1]
            both = count_matches(
                [self.query, *(rule.query for rule in chosen)],
                [self.item, *(rule.item for rule in chosen)],
            )
            counts += both if len(chosen) % 2 == 0 else -both
        return counts


# Lists of (query, item) pairs, and where they come from: equal codes or (Q, G) masks.


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


class TreeView(LabelView):
    """The view of a tree: the same path down to `lowest`, graded by the common path's length."""

    def __init__(
        self, query: list[Codes], item: list[Codes], lowest: int, exclusions: Exclusions
    ) -> None:
        self._query_paths, self._item_paths = query, item
        self._query_table = np.column_stack(query[lowest - 1 :]).astype(np.int32)
        self._query_table[self._query_table < 0] = _NO_MATCH
        self._item_table = np.stack(item[lowest - 1 :]).astype(np.int32)
        self.lowest, self.grades = lowest, len(query)
        super().__init__(query[lowest - 1], item[lowest - 1], exclusions)

    @property
    def paths(self) -> tuple[list[Codes], list[Codes]]:
        """Codes of every level, coarse to fine, of queries and items."""
        return self._query_paths, self._item_paths

    def grade(self, rows: Rows, pairs: PairList) -> npt.NDArray[np.int64]:
        """See View: paths are nested, so the levels that agree can be counted."""
        length = np.full(len(pairs), self.lowest, np.int64)
        for query, item in zip(
            self._query_paths[self.lowest :], self._item_paths[self.lowest :], strict=True
        ):
            length += query[rows][pairs.query] == item[pairs.item]
        return length

    def grade_rows(self, rows: Rows) -> npt.NDArray[np.int8]:
        """See View."""
        grades = np.zeros((len(rows), self.items), np.int8)
        common_paths(self._query_table[rows], self._item_table, self.lowest, grades)
        return grades


class GradeView(View):
    """The view of judgements above zero; grades number the distinct judgements, lowest 1."""

    def __init__(
        self, judgements: Mask, columns: Rows | None, exclusions: Exclusions, items: int
    ) -> None:
        self._judgements, self._columns = judgements, columns
        self.values = judgements.distinct()
        if len(self.values) > MOST_GRADES:
            raise InputError(
                f"relevance has {len(self.values)} distinct grades; at most {MOST_GRADES} are "
                "possible: round them first."
            )
        self.grades = max(1, len(self.values))
        super().__init__(exclusions, judgements.shape[0], items)

    def candidates(self, rows: Rows) -> PairList:
        """See View."""
        return self._judgements.pairs(rows, self._columns)

    def grade(self, rows: Rows, pairs: PairList) -> npt.NDArray[np.int64]:
        """See View."""
        judged = self._judgements.grades(rows, self._columns)
        return np.searchsorted(self.values, judged).astype(np.int64) + 1


class JudgedView(GradeView):
    """The view in which everything judged is looked for: grade 1 was judged irrelevant.

    Where its tie groups are counted, what nobody judged is left out: TieGroups.among_graded.
    """

    def __init__(
        self, judgements: Judgements, columns: Rows | None, exclusions: Exclusions, items: int
    ) -> None:
        super().__init__(judgements.judged, columns, exclusions, items)
        self.values = np.union1d([1], self.values)
        self.grades = len(self.values)


Codes = npt.NDArray[np.int64]


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
