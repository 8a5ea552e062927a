"""One query's ranking, exactly: its row of distances, sorted, and where each mate stands in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_plain
from truerank.errors import InputError, shortened
from truerank.labels import MISSING, Encoded
from truerank.ranked.lists import Items, NeighbourList, Neighbours
from truerank.relevance import GradeView
from truerank.space import Space
from truerank.task import TaskRules

__all__ = ["check_k", "find_queries", "rank"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
PAIRS = 1 << 22
"""Most distances that are held at a time, but for a single row."""


def rank(task: TaskRules, space: Space, queries: Integers, k: int) -> Neighbours:
    """The k nearest items and all mates of these queries, by their row numbers."""
    check_k(k)
    names = [] if task.levels is None else [str(name) for name in task.levels.names]
    step = max(1, PAIRS // space.gallery)
    found: list[NeighbourList] = []
    for start in range(0, len(queries), step):
        rows = queries[start : start + step]
        distances = space.block(rows)(0, space.gallery)
        pairs = task.view.block(rows)
        for place, (query, row) in enumerate(zip(rows.tolist(), distances, strict=True)):
            excluded = pairs.excluded.item[pairs.excluded.query == place]
            mine = pairs.relevant.query == place
            one = _Row(task, space, query, row, excluded, pairs.relevant.item[mine])
            found.append(one.listed(k, pairs.grade[mine]))
    return Neighbours(found, space.facts.distance, k, names if len(names) > 1 else [])


def find_queries(asked: Any, ids: Any, count: int) -> Integers:
    """Row numbers of the queries asked for: ints are row numbers, text is an id, or a list of both.

    Examples
    --------
    >>> find_queries([2, "b"], ["a", "b", "b"], 3).tolist()
    [2, 1]
    """
    several = np.iterable(asked) and not isinstance(asked, (str, bytes))
    rows: list[int] = []
    for one in map(as_plain, asked if several else [asked]):
        if isinstance(one, int) and not isinstance(one, bool):
            if not 0 <= one < count:
                raise InputError(
                    f"there is no query {shortened(one)}: rows are numbered 0 to {count - 1}."
                )
            rows.append(one)
        elif isinstance(one, str):
            rows += _by_id(one, ids)
        else:
            raise InputError(f"a query is a row number, or its id as text. Got {shortened(one)}.")
    if not rows:
        raise InputError("no query is asked for; pass row numbers or ids.")
    return np.array(list(dict.fromkeys(rows)), np.int64)


def _by_id(text: str, ids: Any) -> list[int]:
    if ids is None:
        raise InputError(f"the queries have no ids by which {shortened(text)} could be found.")
    names = [str(name) for name in ids]
    rows = [row for row, name in enumerate(names) if name == text]
    if not rows:
        raise InputError(
            f"no query has the id {shortened(text)}; the first ones are {_some(names)}."
        )
    return rows


def _some(names: list[str]) -> str:
    return ", ".join(map(shortened, list(dict.fromkeys(names))[:3]))


def check_k(k: Any) -> None:
    """Refuse what is no number of neighbours."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(
            f"The 'k' parameter of neighbours must be an int >= 1. Got {shortened(k)} instead."
        )


class _Row:
    """One query with its distances; columns are the gallery items that take part."""

    def __init__(
        self,
        task: TaskRules,
        space: Space,
        query: int,
        distances: Reals,
        excluded: Integers,
        mates: Integers,
    ) -> None:
        self._task, self._space, self._query, self._distances = task, space, query, distances
        self._candidate = np.ones(len(distances), bool)
        self._candidate[excluded] = False
        self._right = np.zeros(len(distances), bool)
        self._right[mates] = True
        self._mates = mates
        self._ordered = np.sort(distances[self._candidate])

    def listed(self, k: int, grades: Integers) -> NeighbourList:
        """The nearest and the mates; `grades` are the mates', in their order."""
        task, query = self._task, self._query
        return NeighbourList(
            query=query,
            **_named(task, query, 0),
            nearest=self._items(self._nearest(k), grades),
            mates=self._items(self._in_order(self._mates), grades),
            candidates=len(self._ordered),
        )

    def _nearest(self, k: int) -> Integers:
        """Columns of the k nearest; of tied ones mates come last, as the score takes them."""
        if not len(self._ordered):
            return np.empty(0, np.int64)
        farthest = self._ordered[min(k, len(self._ordered)) - 1]
        near = np.flatnonzero(self._candidate & (self._distances <= farthest))
        return self._in_order(near)[:k]

    def _in_order(self, columns: Integers) -> Integers:
        likeness = self._shared(columns) + len(self._paths) * self._right[columns]
        return columns[np.lexsort((columns, likeness, self._distances[columns]))]

    def _items(self, columns: Integers, grades: Integers) -> Items:
        distances = self._distances[columns]
        rows = columns if self._task.columns is None else self._task.columns[columns]
        return Items(
            row=rows,
            distance=self._space.in_unit(distances),
            first=np.searchsorted(self._ordered, distances, "left") + 1,
            last=np.searchsorted(self._ordered, distances, "right"),
            right=self._right[columns],
            shared=self._shared(columns),
            grade=self._grades(columns, grades),
            **{name: _values(names, rows) for name, names in _names(self._task).items()},
        )

    @property
    def _paths(self) -> list[Encoded]:
        return [] if self._task.levels is None else self._task.levels.paths

    def _shared(self, columns: Integers) -> Integers:
        """How many levels, from the coarsest down, each item has in common with the query."""
        rows = columns if self._task.columns is None else self._task.columns[columns]
        shared = np.zeros(len(rows), np.int64)
        for path in self._paths:  # nested: the levels that agree can be counted
            shared += path.codes[0][self._query] == path.codes[-1][rows]
        return shared

    def _grades(self, columns: Integers, grades: Integers) -> Reals | None:
        """The judgements, 0 for items that are not relevant; None where labels decide."""
        view = self._task.view
        if not isinstance(view, GradeView):
            return None
        judged = np.zeros(len(self._distances))
        judged[self._mates] = view.values[grades - 1]
        return judged[columns]


def _names(task: TaskRules) -> dict[str, Encoded | None]:
    finest = None if task.levels is None else task.levels.finest
    return {"id": task.id_names, "label": finest, "group": task.group_names}


def _named(task: TaskRules, row: int, side: int) -> dict[str, Any]:
    """Id, label and group of one row; None for what it has not."""
    return {
        name: None if (found := _values(names, np.array([row]), side)) is None else found[0]
        for name, names in _names(task).items()
    }


def _values(names: Encoded | None, rows: Integers, side: int = -1) -> list[Any] | None:
    if names is None:
        return None
    codes = names.codes[side][rows].tolist()
    return [None if code == MISSING else names.values[code] for code in codes]
