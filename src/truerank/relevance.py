"""Views: which items are relevant to a query, by label, tree or judgement, and which never meet it.

A view gives, for any block of queries, the relevant gallery items (with a grade from 1 up where
there is more than one kind of relevant) and the excluded ones. What is excluded is the same in
every view of a task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.jit import kernel
from truerank.pairs import CodeIndex, Codes, Judgements, Mask, PairList, count_matches

__all__ = [
    "BlockPairs",
    "Equality",
    "Exclusions",
    "GradeView",
    "JudgedView",
    "LabelView",
    "TreeView",
    "View",
]

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


@kernel
def common_paths(query: Any, item: Any, lowest: int, out: Any) -> None:
    """Lengths of the common paths, from `lowest` up, added to zeros; item[level] is contiguous.

    Paths are nested, so the levels that agree can be counted, without a branch for each item.
    """
    for q in range(query.shape[0]):
        row = out[q]
        for level in range(query.shape[1]):
            code = query[q, level]
            column = item[level]
            step = np.int8(lowest if level == 0 else 1)
            for g in range(column.size):
                row[g] += step if column[g] == code else np.int8(0)


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
                f"relevance has {len(self.values)} distinct grades; at most {MOST_GRADES} are told "
                "apart: round them first."
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
