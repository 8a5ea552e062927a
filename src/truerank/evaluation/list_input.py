"""Input of evaluate_lists, read and checked: lists of gallery rows under the rules of a task.

Items are named by row numbers or by ids; equal scores are runs, and unknown items are UNKNOWN.
Junk and the query itself are removed, and later items close the gap. A repeated or unknown item
keeps its place and is wrong there. Everything that a query could have found and was not given
is one tie group behind its list, so every ranking metric follows from tie groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array, as_plain
from truerank._util.errors import InputError, check_choice, shortened, warn
from truerank._util.text import count
from truerank._util.types import Array, Flags, Integers
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import Metric, RankingDefinition
from truerank.core.tie_groups import Block, OpenGroups, SplitGroups, TieGroups
from truerank.evaluation.passes import refused
from truerank.io.judgements import Grades, aligned, goes_by_id, judged_names, read_judgements
from truerank.io.lists import ListFile, read_lists, run_of_mapping
from truerank.io.reading import is_path, read_side
from truerank.task.labels import MISSING, encode, missing_rows
from truerank.task.relevance import JudgedView, Judgements, PairList, View
from truerank.task.task import TaskRules

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
                "neighbors must be row numbers or ids, with -1 for none. Got dtype "
                f"{cells.dtype} instead; convert with neighbors.astype(numpy.int64)."
            )
        if named_by == "row" or (ids is None and named_by == "auto"):
            if not whole and not _all_whole(cells):
                some = next(cell for cell in cells.tolist() if not _is_whole(cell))
                fix = "named_by='id'" if ids is not None else "gallery_ids"
                raise InputError(
                    f"neighbors hold {shortened(some)}, which is no row number; pass {fix}."
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
                f"neighbors are integers and ids are text of digits ({shortened(known[0])}): pass "
                "named_by='row' or named_by='id'."
            )
        twice, number = Counter(known).most_common(1)[0]
        if number > 1:
            raise InputError(
                f"{number} gallery rows share the id {shortened(twice)}, so an id does not "
                "identify the row that was returned; pass row numbers and named_by='row'."
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
                raise InputError(f"neighbors hold {shortened(cell)}, which is no id.") from None
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
        raise InputError(f"gallery_ids must have one value per row ({items}). Got {len(codes)}.")
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


# What a search returned, as users have it, becomes lists of gallery rows, place after place.
#
# In: a matrix, ragged lists or a file, of row numbers or ids, and maybe scores. Out: Returned, in
# which equal scores are runs and what is no gallery item is UNKNOWN.


UNKNOWN = -1
"""In the place of a gallery row: something that is none."""


@dataclass(frozen=True)
class Returned:
    """The places of every list, query after query; what was returned nowhere is left out."""

    offsets: Integers
    """Query q owns the places offsets[q] to offsets[q + 1]."""
    item: Integers
    """The gallery row in each place, or UNKNOWN."""
    column: Integers
    """Where a place stood in the list as it was returned, from 0."""
    run: Integers
    """A number that neighbouring places share if their scores are equal; it never falls."""
    asked: int
    """Places that were asked for: those of the longest list, whether filled or not."""

    @staticmethod
    def of(
        neighbors: Any,
        scores: Any,
        *,
        queries: int,
        items: int,
        ids: Any = None,
        named_by: str = "auto",
        unnamed: int = 0,
    ) -> Returned:
        """Lists from what a user passes; `ids` are the gallery's, where it has any.

        Of the items, the last so many may be `unnamed`.
        """
        check_choice("named_by", named_by, NAMED_BY)
        found, lengths = flattened(neighbors, "neighbors")
        if len(lengths) != queries:
            raise InputError(
                f"there are {len(lengths)} lists of neighbors but {queries} queries; pass one "
                "list for each query."
            )
        names = Names.of(ids, items - unnamed, named_by, found)
        row, none = names.rows(found)
        start = np.cumsum(lengths) - lengths
        query = np.repeat(np.arange(queries), lengths)
        column = np.arange(len(row)) - start[query]
        held = ~none
        run = np.arange(int(held.sum()))
        if scores is not None:
            run = _runs(_scores(scores, lengths)[held], query[held], column[held])
        offsets = np.concatenate([[0], np.cumsum(np.bincount(query[held], minlength=queries))])
        asked = int(lengths.max()) if len(lengths) else 0
        return Returned(offsets, row[held], column[held], run, asked)


def flattened(value: Any, name: str) -> tuple[npt.NDArray[Any], Integers]:
    """All cells of a matrix or of ragged lists, one after another, and the length of each list."""
    if not isinstance(value, (list, tuple)):
        value = as_array(value, name)
    if isinstance(value, np.ndarray) and (value.dtype != object or value.ndim == 0):
        if value.ndim != 2:
            raise InputError(
                f"{name} must have shape (queries, places), or be a list for each query. "
                f"Got shape {value.shape} instead."
            )
        return value.ravel(), np.full(len(value), value.shape[1], np.int64)
    rows = [_row(row, name, number) for number, row in enumerate(value)]
    if not rows:
        raise InputError(f"{name} is empty; pass a list for each query.")
    lengths = np.array([len(row) for row in rows], np.int64)
    kinds = {row.dtype.kind for row in rows if len(row)}
    if kinds <= {"i", "u", "f"}:
        filled = [row for row in rows if len(row)]
        return np.concatenate(filled) if filled else np.empty(0, np.int64), lengths
    cells = (as_plain(cell) for row in rows for cell in row.tolist())
    return np.fromiter(cells, object, int(lengths.sum())), lengths


def _row(row: Any, name: str, number: int) -> npt.NDArray[Any]:
    if row is None:
        return np.empty(0, np.int64)
    if isinstance(row, (str, bytes)) or not np.iterable(row):
        raise InputError(
            f"{name} must hold a list for each query. Got {shortened(row)} for query {number}."
        )
    if isinstance(row, (list, tuple)) and any(
        isinstance(cell, str) or cell is None for cell in row
    ):
        array = np.fromiter(row, object, len(row))
    else:
        array = as_array(row, f"{name} of query {number}")
    if array.ndim != 1:
        raise InputError(
            f"{name} of query {number} must be a list of items. Got shape {array.shape} instead."
        )
    return array if len(array) else np.empty(0, np.int64)


def _scores(scores: Any, lengths: Integers) -> npt.NDArray[np.float64]:
    """One number for each place of the lists."""
    flat, own = flattened(scores, "scores")
    if not np.array_equal(own, lengths):
        wrong = int(np.flatnonzero(own != lengths)[0]) if len(own) == len(lengths) else None
        where = "" if wrong is None else f" (query {wrong} has {own[wrong]} for {lengths[wrong]})"
        raise InputError(
            f"scores and neighbors differ in length{where}; pass one score for each place."
        )
    if flat.dtype.kind not in "fiub":
        raise InputError(f"scores must be numbers. Got dtype {flat.dtype} instead.")
    if flat.dtype.kind in "iu" and len(flat) and np.abs(flat.astype(object)).max() > 2**53:
        raise InputError("scores hold integers beyond 2^53, which float64 cannot distinguish.")
    return np.asarray(flat, np.float64)


def _runs(scores: npt.NDArray[np.float64], query: Integers, column: Integers) -> Integers:
    """Numbers of runs of equal scores; scores that contradict the order are refused."""
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        at = int(wrong[0])
        what = "NaN" if np.isnan(scores[at]) else str(scores[at])
        raise InputError(
            f"scores hold {what}, in place {column[at] + 1} of query {query[at]}; every item that "
            "was returned needs a finite score."
        )
    same = query[1:] == query[:-1]
    rises = np.flatnonzero(same & (scores[1:] > scores[:-1])) + 1
    falls = np.flatnonzero(same & (scores[1:] < scores[:-1])) + 1
    if len(rises) and len(falls):
        up, down = (f"place {column[at[0]] + 1} of query {query[at[0]]}" for at in (rises, falls))
        raise InputError(
            f"scores contradict the order of the lists: they rise in {up} and fall in {down}; sort "
            "each list by its scores, or leave the scores out."
        )
    fresh = np.ones(len(scores), bool)
    fresh[1:] = ~same | (scores[1:] != scores[:-1])
    return np.cumsum(fresh)


# Lists under the rules of a task: junk and the query itself are taken out, what follows moves up.


_CHUNK = 1024
"""Queries whose excluded pairs are held at a time."""
_WORK = 1 << 22
"""Relevant pairs and places of a block, about."""


@dataclass(frozen=True)
class ListPlaces:
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
    def of(returned: Returned, task: TaskRules, *, sized: bool = True) -> ListPlaces:
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
        return ListPlaces(
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

    def cut(self, k: int) -> ListPlaces:
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

    def tied_by(self, values: npt.NDArray[np.float64]) -> ListPlaces:
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


# What users pass to evaluate_lists, read and checked: a task's rules, and lists under them.


@dataclass(frozen=True)
class Prepared:
    """A task, what was returned for its queries, and how that counts."""

    task: TaskRules
    returned: Returned
    places: ListPlaces
    names: list[Any] | None
    """The queries' ids, where anything names them."""


def prepare(
    neighbors: Any,
    labels: Any = None,
    *,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    scores: Any = None,
    relevance: Any = None,
    unmated: str = "report",
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    unlabelled: str = "error",
    named_by: str = "auto",
    gallery_size: int | None = None,
    leave_one_out: bool | None = None,
) -> Prepared:
    """The task and its lists, from the arguments of evaluate_lists.

    Files of labels bring along ids and groups that were not passed. Ids keep rows apart where both
    sides have them; those that only a run and its judgements name do not, since there queries and
    items have names of their own.
    """
    found = _lists(neighbors, scores)
    queries, items = read_side(None, labels), read_side(None, gallery_labels)
    own = queries.ids if query_ids is None else query_ids
    other = items.ids if gallery_ids is None else gallery_ids
    alone = leave_one_out or (relevance is None and gallery_labels is None)
    names = _Names(own, own if alone else other, found)
    if goes_by_id(relevance):
        relevance = names.judgements(relevance, gallery_size)
    elif gallery_size is not None:
        raise InputError("gallery_size goes with a file of judgements, which names some items.")
    meet = not alone and own is not None and other is not None
    task = TaskRules(
        queries.labels,
        ids=own if alone or meet else None,
        groups=queries.groups if query_groups is None else query_groups,
        gallery_labels=items.labels,
        gallery_ids=other if alone or meet else None,
        gallery_groups=items.groups if gallery_groups is None else gallery_groups,
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        unmated=unmated,
        unlabelled=unlabelled,
        leave_one_out=leave_one_out,
    )
    lists, of_items = found.neighbors, found.scores
    if found.queries is not None:
        lists, of_items = names.in_order(found, task.queries)
    returned = Returned.of(
        lists,
        of_items,
        queries=task.queries,
        items=task.gallery_size,
        ids=names.items,
        named_by="id" if found.by_id else named_by,
        unnamed=0 if gallery_size is None else task.gallery_size - len(names.items),
    )
    listed = None if names.queries is None else list(names.queries)
    sized = gallery_size is not None or not names.from_judgements
    return Prepared(task, returned, ListPlaces.of(returned, task, sized=sized), listed)


def _lists(neighbors: Any, scores: Any) -> ListFile:
    """The lists as they came, with the scores that go with them."""
    ignored = scores is False
    if is_path(neighbors):
        found = read_lists(neighbors)
    elif isinstance(neighbors, Mapping):
        found = run_of_mapping(neighbors)
    else:
        return ListFile(neighbors, None if ignored else scores)
    return found if scores is None else replace(found, scores=None if ignored else scores)


class _Names:
    """The ids of queries and items, from what was passed or else from a run and its judgements."""

    def __init__(self, queries: Any, items: Any, found: ListFile) -> None:
        self.queries: Any = None if queries is None else _column(queries, "query_ids")
        self.items: Any = None if items is None else _column(items, "gallery_ids")
        self.found = found
        self.from_judgements = False
        """Whether a run and its judgements are all that names queries and items."""

    def judgements(self, source: Any, gallery_size: Any) -> Judgements:
        """The judgements of a file or a mapping; with a run it may be all that names anything."""
        grades = read_judgements(source)
        if self.queries is None and self.items is None and self.found.by_id:
            self._from_judgements(grades, gallery_size)
        if self.queries is None or self.items is None:
            raise InputError(
                "judgements of a file or of {query: {item: grade}} name rows by id; pass query_ids "
                "and gallery_ids, or lists that go by id too: a TREC run or {query: {item: score}}."
            )
        size = None if gallery_size is None else _size(gallery_size, len(self.items))
        name = str(source) if is_path(source) else "relevance"
        return aligned(
            grades, self.queries, self.items, name, size=size, named=self.from_judgements
        )

    def _from_judgements(self, grades: Grades, gallery_size: Any) -> None:
        """The queries that are judged, and all items that a run or judgements name."""
        self.queries, judged = judged_names(grades)
        returned = [name for row in self.found.neighbors for name in row]
        self.items = list(dict.fromkeys([*returned, *judged]))
        self.from_judgements = True
        if gallery_size is None:
            warn(
                "the size of the gallery is unknown: what was not returned earns nothing in score "
                "and expected, and chance is that of the "
                f"{count(len(self.items), 'item')} returned or judged; pass gallery_size or "
                "gallery_ids."
            )

    def in_order(self, found: ListFile, queries: int) -> tuple[list[Any], list[Any] | None]:
        """Lists in the order of the queries; an empty one for a query that nobody names."""
        assert found.queries is not None
        if self.queries is None:
            raise InputError("the lists name their queries by id; pass query_ids.")
        place = {str(name): row for row, name in enumerate(found.queries)}
        if len(place) < len(found.queries):
            raise InputError("the lists name a query twice; pass one list for each.")
        rows = [place.get(str(name)) for name in self.queries]
        strangers = len(place) - len({row for row in rows if row is not None})
        if strangers == len(place):
            raise InputError("the lists name none of the queries; compare their ids.")
        if strangers:
            warn(f"{count(strangers, 'list')} of queries that are not evaluated are left out.")
        if len(rows) != queries:
            raise InputError(f"query_ids must have one value per row ({queries}). Got {len(rows)}.")
        lists = [() if row is None else found.neighbors[row] for row in rows]
        if found.scores is None:
            return lists, None
        if len(found.scores) != len(found.queries):
            raise InputError(
                "scores has another number of lists than neighbors; pass one list for each."
            )
        return lists, [() if row is None else found.scores[row] for row in rows]


def _column(ids: Any, name: str) -> list[Any]:
    array = as_array(ids, name)
    if array.ndim != 1:
        raise InputError(f"{name} must be one value for each row. Got shape {array.shape} instead.")
    return list(array.tolist())


def _size(size: Any, named: int) -> int:
    is_number = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not is_number or not named <= size < 2**40:
        raise InputError(
            f"The 'gallery_size' parameter must be an int from {named}, the items that are named, "
            f"to 2^40 - 1. Got {shortened(size)} instead."
        )
    return int(size)


def choose(
    task: TaskRules, metrics: Iterable[str] | str | None
) -> tuple[list[Metric], dict[str, str]]:
    """The ranking metrics asked for, and why some of all do not apply."""
    deep = task.levels is not None and len(task.levels) > 1
    usual = registry.parse_all([*registry.DEFAULT, *(registry.DEFAULT_HIERARCHY if deep else ())])
    if metrics is None:
        return usual, {}
    if isinstance(metrics, str) and metrics == "all":
        others = registry.parse_all(definitions.plainest(but={one.name for one in usual}))
        every = [*usual, *filter(_ranks, others)]
        reasons = refused(task, every)
        kept = [metric for metric in every if metric not in reasons]
        return kept, {str(metric): reason for metric, reason in reasons.items()}
    if not isinstance(metrics, str) and np.iterable(metrics):
        metrics = list(metrics)
    chosen = registry.parse_all(metrics)
    if task.levels is None:
        registry.check_judged(metrics)
    for metric in chosen:
        if not _ranks(metric):
            raise InputError(
                f"{metric} is no ranking metric: lists do not hold what it is measured on; pass "
                "the embeddings to evaluate."
            )
    for sentence in registry.advice_about(metrics, judged=task.levels is None):
        warn(sentence)
    return chosen, {}


def _ranks(metric: Metric) -> bool:
    return isinstance(registry.definition(metric), RankingDefinition)
