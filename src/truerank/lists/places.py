"""Lists under the rules of a task: junk and the query itself are taken out, what follows moves up.

What was returned before, or is no gallery item, keeps its place and is wrong there. What a query
could have found and was not given is a single tie group behind its list. So a list is tie groups,
and every ranking metric follows from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from truerank.core.groups import Block, OpenGroups, SplitGroups, TieGroups
from truerank.lists.returned import UNKNOWN, Returned
from truerank.pairs import PairList
from truerank.relevance import JudgedView, View
from truerank.task import TaskRules

__all__ = ["Places"]

Integers = npt.NDArray[np.int64]
_CHUNK = 1024
"""Queries whose excluded pairs are held at a time."""
_WORK = 1 << 22
"""Relevant pairs and places of a block, about."""


@dataclass(frozen=True)
class Places:
    """The places of every list that count, query after query."""

    offsets: Integers
    item: Integers
    """The item in each place, by its number in the task; UNKNOWN where nothing new stands."""
    named: Integers
    """The same, but of repeated items their number too."""
    run: Integers
    """As in Returned."""
    until: Integers
    """Where the run of each place ends in the list as it was returned, junk included, from 0."""
    eligible: Integers
    """Items that each query could have found."""
    taken_out: Integers
    """Of each list, the places that junk and the query itself had."""
    repeated: int
    """Places of items that stood in the list before."""
    unknown: int
    """Places of what is no gallery item."""
    asked: int
    sized: bool = True
    """Whether the size of the gallery is known."""

    @staticmethod
    def of(returned: Returned, task: TaskRules, *, sized: bool = True) -> Places:
        """The lists with everything taken out that a query never meets.

        The gallery is `sized` unless it may hold any number of items that nothing names.
        """
        queries, items = task.queries, task.items
        query = np.repeat(np.arange(queries), np.diff(returned.offsets))
        known, item = returned.item != UNKNOWN, returned.item
        if task.columns is not None:
            number = np.full(task.gallery_size, UNKNOWN)
            number[task.columns] = np.arange(items)
            item = np.where(known, number[item], UNKNOWN)
        out = known & (item == UNKNOWN)  # of a junk label
        eligible = np.full(queries, items, np.int64)
        exclusions = task.view.exclusions
        for start in range(0, queries, _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, queries))
            span = slice(*returned.offsets[[start, start + len(rows)]])
            here = np.flatnonzero(item[span] != UNKNOWN) + span.start
            pairs = PairList(query[here] - start, item[here])
            out[here] = exclusions.covers(rows, pairs, items)
            never = exclusions.pairs(rows, items).query
            eligible[rows] -= np.bincount(never, minlength=len(rows))
        kept = np.flatnonzero(~out)
        query, item = query[kept], item[kept]
        new = np.zeros(len(kept), bool)
        some = np.flatnonzero(item != UNKNOWN)
        new[some[np.unique(query[some] * items + item[some], return_index=True)[1]]] = True
        lengths = np.bincount(query, minlength=queries)
        return Places(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.where(new, item, UNKNOWN),
            item,
            returned.run[kept],
            _ends(returned.run, returned.column)[kept],
            eligible,
            np.diff(returned.offsets) - lengths,
            repeated=len(some) - int(new.sum()),
            unknown=len(kept) - len(some),
            asked=returned.asked,
            sized=sized,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Integers:
        """Places of each list."""
        return np.diff(self.offsets)

    @property
    def strangers(self) -> Integers:
        """Places of each list that hold nothing new."""
        nothing = np.concatenate([[0], np.cumsum(self.item == UNKNOWN)])
        return np.diff(nothing[self.offsets])

    def cut(self, k: int) -> Places:
        """The lists as if k places had been asked for; a run that the cut divides goes as a whole.

        Which part of a run comes before a cut is up to the search, so that none of it is certain.
        The further a cut, the fewer orders are left: where all that is listed is new, no bound
        moves outward.
        """
        kept = self.until < k
        within = np.concatenate([[0], np.cumsum(kept)])
        lengths = np.diff(within[self.offsets])
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            item=self.item[kept],
            named=self.named[kept],
            run=self.run[kept],
            until=self.until[kept],
            asked=min(k, self.asked),
        )

    def tied_by(self, values: npt.NDArray[np.float64]) -> Places:
        """The same lists, in which neighbouring places tie if these values of theirs are equal."""
        query = np.repeat(np.arange(len(self)), self.lengths)
        fresh = np.ones(len(values), bool)
        fresh[1:] = (values[1:] != values[:-1]) | (query[1:] != query[:-1])
        return replace(self, run=np.cumsum(fresh))

    def blocks(self, view: View) -> Iterator[Block]:
        """Tie groups of every query that has a relevant item in a view."""
        rows = np.flatnonzero(view.mates > 0)
        if not len(rows):
            return
        # few large blocks: queries whose groups are alike share the sums over a whole gallery
        work = np.cumsum(view.mates[rows] + self.lengths[rows] + 1)
        cuts = np.searchsorted(work, np.arange(_WORK, int(work[-1]), _WORK))
        for some in np.split(rows, np.unique(cuts)):
            if len(some):
                yield Block(some, self._groups(view, some), SplitGroups.none())

    def _groups(self, view: View, rows: Integers) -> TieGroups:
        block = view.block(rows)
        items, grades = view.items, view.grades
        totals = np.zeros((len(rows), grades), np.int64)
        np.add.at(totals, (block.relevant.query, block.grade - 1), 1)
        if isinstance(view, JudgedView):
            # A relevant item that was not returned earns nothing in trec_eval, even if nothing was
            # judged irrelevant: items that bear it out stand behind the list.
            none = totals[:, 0] == 0
            totals[none, 0] = totals[none].sum(axis=1)
        query, at = self._of(rows)
        place = at - self.offsets[rows][query]
        grade = _grades(PairList(query, self.item[at]), block.relevant, block.grade, items)

        first = _starts(self.run[at])
        size = np.diff(np.append(first, len(at)))
        group = np.repeat(np.arange(len(first)), size)
        graded = np.zeros((len(first), grades), np.int64)
        right = np.flatnonzero(grade)
        np.add.at(graded, (group[right], grade[right] - 1), 1)
        owner, before = query[first], place[first]
        found = np.zeros_like(totals)
        np.add.at(found, owner, graded)

        length = self.lengths[rows]
        new = length - self.strangers[rows]
        held = np.flatnonzero(graded.any(axis=1))
        lacking = np.flatnonzero((totals > found).any(axis=1))
        owner = np.concatenate([owner[held], lacking])
        order = np.argsort(owner, kind="stable")  # behind its list is each query's last group
        fields = (
            np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(rows)))]),
            np.concatenate([before[held], length[lacking]])[order],
            np.concatenate([size[held], (self.eligible[rows] - new)[lacking]])[order],
            np.concatenate([graded[held], (totals - found)[lacking]])[order].astype(np.int32),
            self.eligible[rows] + length - new,
        )
        if self.sized:
            return TieGroups(*fields)
        return OpenGroups(*fields, order >= len(held))

    def _of(self, rows: Integers) -> tuple[Integers, Integers]:
        """All places of these queries: the query of each, by its number in rows, and the place."""
        lengths = self.lengths[rows]
        query = np.repeat(np.arange(len(rows)), lengths)
        start = self.offsets[rows] - (np.cumsum(lengths) - lengths)
        return query, np.arange(len(query)) + start[query]


def _starts(run: Integers) -> Integers:
    """Where runs begin; places of one run follow each other."""
    fresh = np.ones(len(run), bool)
    fresh[1:] = run[1:] != run[:-1]
    return np.flatnonzero(fresh)


def _ends(run: Integers, column: Integers) -> Integers:
    """The last column of each place's run."""
    start = _starts(run)
    size = np.diff(np.append(start, len(run)))
    return np.repeat(column[start + size - 1], size) if len(run) else column


def _grades(listed: PairList, relevant: PairList, grade: Integers, items: int) -> Integers:
    """The grade of each listed pair, 0 if it is not relevant."""
    key = relevant.query * items + relevant.item
    order = np.argsort(key, kind="stable")
    key = key[order]
    asked = listed.query * items + listed.item
    at = np.minimum(np.searchsorted(key, asked), len(key) - 1)
    right = (key[at] == asked) & (listed.item != UNKNOWN)
    return np.where(right, grade[order][at], 0)
