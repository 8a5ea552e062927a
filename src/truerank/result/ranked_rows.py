"""Rankings of single queries behind a result: nearest items and ranks of all relevant items.

A query's row of distances is computed exactly and sorted; ranks that ties leave open are
ranges. A result refers to its embeddings weakly, so that it keeps none in memory; paths are
remembered by name. Rows that have changed since the evaluation are refused.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util import text
from truerank._util.arrays import as_plain
from truerank._util.errors import InputError, TruerankWarning, shortened
from truerank._util.old_names import RenamedAttribute
from truerank._util.text import TextTable, count, level_name
from truerank._util.types import Array, Integers, Reals
from truerank.core.registry import display_name
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.distance.probe import probe
from truerank.io.reading import as_matrix, read_side
from truerank.result import tables
from truerank.task.labels import MISSING, Encoded
from truerank.task.relevance import GradeView
from truerank.task.task import TaskRules

# The rows behind a result, as long as somebody else still has them.
#
# A result may outlive many gigabytes of embeddings: it refers to arrays and tensors weakly, so
# that it never keeps one alive, remembers paths by their names, and keeps the labels and lists it
# was given. Rows that have changed since are refused.


INSTEAD = "call truerank.neighbors with the embeddings"


@dataclass(frozen=True)
class AtHand:
    """The rows of an evaluation, found again as they were."""

    task: TaskRules
    space: Space
    rows: Array
    items: Array | None
    """Rows of a gallery of its own."""
    threads: int | None


class HeldRows:
    """The task of an evaluation, and where its rows are.

    With `keep` they are kept alive: for whoever has no other use for the result than to look.
    """

    def __init__(
        self,
        task: TaskRules,
        embeddings: Any,
        gallery: Any,
        *,
        distance: str,
        threads: int | None,
        keep: bool = False,
    ) -> None:
        dense = any(mask.dense for mask in task.masks.values())
        self._task = None if dense and not keep else task
        refer = _kept if keep else _reference
        self._rows, self._items = refer(embeddings), refer(gallery)
        self._separate = gallery is not None
        self._distance, self._threads = distance, threads
        self._content = b""

    def seen(self, space: Space) -> HeldRows:
        """Remember what the rows held when they were evaluated."""
        self._content = _content(space)
        return self

    def neighbors(self, queries: Any, k: int) -> Neighbors:
        """The neighbors of these queries: row numbers, or ids as text."""
        check_k(k)
        found = self.at_hand()
        names = found.task.id_names
        ids = None if names is None else [names.values[code] for code in names.codes[0].tolist()]
        return rank(found.task, found.space, find_queries(queries, ids, found.task.queries), k)

    def missing(self) -> str | None:
        """Why the rows are not at hand; None if they are."""
        if self._task is None:
            return (
                "a result keeps no dense junk or relevance matrix, which is as large as all "
                f"distances; {INSTEAD} and the matrix, or pass it sparse"
            )
        if self._rows() is None or (self._separate and self._items() is None):
            return (
                "the rows are gone: a result does not keep arrays alive; keep them in a variable "
                f"as long as you need them, or {INSTEAD}"
            )
        return None

    def at_hand(self) -> AtHand:
        """The rows; refused if they are gone, or have changed since."""
        reason, source, other = self.missing(), self._rows(), self._items()
        if reason is not None or self._task is None:
            raise InputError(f"{reason}.")
        rows = as_matrix(read_side(source).embeddings, "embeddings")
        items = as_matrix(read_side(other).embeddings, "gallery") if self._separate else None
        with warnings.catch_warnings():  # the evaluation has told them
            warnings.simplefilter("ignore", TruerankWarning)
            space = build(self._distance, rows, items, self._task.columns, threads=self._threads)
        if _content(space) != self._content:
            raise InputError(f"the rows have changed since they were evaluated; {INSTEAD}.")
        probe(space)
        return AtHand(self._task, space, rows, items, self._threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """A result that goes to a file or to another process leaves its rows behind."""
        return type(None), ()


def _kept(value: Any) -> Callable[[], Any]:
    """A function that gives the value."""
    return lambda: value


def _reference(value: Any) -> Callable[[], Any]:
    """A function that gives the value as long as it is there."""
    if value is None or isinstance(value, (str, os.PathLike, list, tuple)):
        return _kept(value)
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def _content(space: Space) -> bytes:
    """A digest of all rows in their order."""
    digest = blake2b(space.facts.input_digest.encode(), digest_size=16)
    sides = (space.query_digests, space.gallery_digests)
    for side in sides[: 1 if sides[0] is sides[1] else 2]:
        digest.update(np.ascontiguousarray(side.astype("<u8", copy=False)).data)
    return digest.digest()


# What a person reads of a ranking: the nearest items, and the ranks of all relevant ones.


SHOWN = 20
"""Ranks of mates that are written out in text."""
ABOUT = ("query", "query_id", "query_label", "query_group", "score")
ITEM = ("rank", "last_rank", "row", "id", "label", "group", "distance", "verdict", "level", "grade")
"""The columns of CSV: what is known of the query, and of the item."""


@dataclass(frozen=True)
class Items:
    """Gallery items in the order of a ranking, by column."""

    row: Integers
    """Row numbers in the gallery, as it was given."""
    distance: Reals
    """In the distance's own unit."""
    first: Integers
    """The best rank that ties leave open, from 1,"""
    last: Integers
    """and the worst."""
    right: npt.NDArray[np.bool_]
    """Whether the item is relevant to the query."""
    shared: Integers
    """How many levels of the labels it has in common with the query, from the coarsest down."""
    grade: Reals | None = None
    """Judgements, where they say who is relevant."""
    id: list[Any] | None = None
    label: list[Any] | None = None
    group: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.row)

    def plain(self, levels: list[str]) -> Iterator[dict[str, Any]]:
        """Each item as plain values; `levels` name the levels of the labels, if there are some."""
        for place in range(len(self)):
            found: dict[str, Any] = {
                "rank": int(self.first[place]),
                "last_rank": int(self.last[place]),
                "row": int(self.row[place]),
            }
            for name in ("id", "label", "group"):
                column = getattr(self, name)
                if column is not None:
                    found[name] = _plain(column[place])
            found["distance"] = float(self.distance[place])
            found["verdict"] = self.verdict(place, levels)
            if levels:
                shared = int(self.shared[place])
                found["level"] = levels[shared - 1] if shared else None
            if self.grade is not None:
                found["grade"] = float(self.grade[place])
            yield found

    def verdict(self, place: int, levels: list[str]) -> str:
        """right, near miss (a coarser level is right) or wrong."""
        if self.right[place]:
            return "right"
        return "near miss" if levels and self.shared[place] else "wrong"


@dataclass(frozen=True)
class NeighborList:
    """One query: its nearest items, and the ranks of all its relevant items."""

    query: int
    """Its row number."""
    id: Any
    label: Any
    group: Any
    nearest: Items
    """Of items at one distance relevant ones come last, as in the score."""
    relevant: Items
    """All relevant items, from near to far."""
    candidates: int
    """Items that are ranked, relevant or not."""
    score: float | None = None
    """Its value in the metric by which it was chosen."""

    mates = RenamedAttribute("relevant")

    def to_dict(self, levels: list[str]) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "query": self.query,
            "id": _plain(self.id),
            "label": _plain(self.label),
            "group": _plain(self.group),
            "score": self.score,
            "candidates": self.candidates,
            "nearest": list(self.nearest.plain(levels)),
            "mates": list(self.relevant.plain(levels)),
        }

    def title(self, metric: str | None = None) -> str:
        """'query 17, id image-017, label cat (MAP@R 12.50 %)'."""
        known = [("id", self.id), ("label", self.label), ("group", self.group)]
        parts = [f"query {self.query}"]
        parts += [f"{name} {value}" for name, value in known if value is not None]
        line = ", ".join(parts)
        if metric is not None and self.score is not None:
            line += f" ({display_name(metric)} {tables.percent(self.score)} %)"
        return line

    def table(self, levels: list[str]) -> TextTable:
        """Cells for people, a row for each of the nearest items."""
        items = self.nearest
        names = [n for n in ("id", "label", "group") if getattr(items, n) is not None]
        judged = ["grade"] if items.grade is not None else []
        rows = []
        for one in items.plain(levels):
            verdict = one["verdict"]
            if verdict == "near miss":
                verdict += f" ({level_name(one['level'])})"
            cells = [tables.MISSING if one[name] is None else str(one[name]) for name in names]
            grades = [f"{one['grade']:g}" for _ in judged]
            ranks = _ranks(one["rank"], one["last_rank"])
            numbers = [str(one["row"]), f"{one['distance']:.6g}", *grades]
            rows.append([ranks, *cells, verdict, *numbers])
        header = ["rank", *names, "verdict", "row", "distance", *judged]
        return TextTable(header, rows, words=tuple(range(len(names) + 2)))

    def about_mates(self) -> str:
        """A sentence with the ranks of the relevant items."""
        of = count(self.candidates, "candidate")
        mates = self.relevant
        if not len(mates):
            return f"No relevant item among {of}."
        shown = [
            _ranks(first, last)
            for first, last in zip(mates.first.tolist(), mates.last.tolist(), strict=True)
        ]
        where = f"at {'rank' if len(shown) == 1 else 'ranks'} {', '.join(shown[:SHOWN])}"
        if len(shown) > SHOWN:
            where += f" and {len(shown) - SHOWN:,} more up to {shown[-1]}"
        return f"{count(len(mates), 'relevant item')} among {of}, {where}."


@dataclass(frozen=True)
class Neighbors:
    """Rankings of some queries; prints one table per query."""

    lists: list[NeighborList]
    distance: str
    k: int
    """How many of the nearest items are listed."""
    levels: list[str]
    """Names of the levels of the labels from coarse to fine, if there are several."""
    metric: str | None = None
    """By which the worst queries were chosen, if they were."""

    def __len__(self) -> int:
        return len(self.lists)

    def __iter__(self) -> Iterator[NeighborList]:
        return iter(self.lists)

    def __getitem__(self, place: int) -> NeighborList:
        return self.lists[place]

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [
            text.heading(one.title(self.metric))
            + text.table(one.table(self.levels))
            + text.paragraphs([one.about_mates()])
            for one in self.lists
        ]
        return text.block(*parts, text.paragraphs(self.notes))

    def chosen_by(self, metric: str, scores: Reals) -> Neighbors:
        """The same, with the score of each query in a metric."""
        pairs = zip(self.lists, scores.tolist(), strict=True)
        return replace(self, metric=metric, lists=[replace(one, score=s) for one, s in pairs])

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen."""
        parts = [
            f"{text.paragraph(one.title(self.metric), strong=rule)}\n"
            f"{text.paragraph(one.about_mates())}\n"
            + tables.laid_out(one.table(self.levels), rule=rule)
            for one in self.lists
        ]
        return "\n\n".join([*parts, *map(text.paragraph, self.notes)])

    @property
    def notes(self) -> list[str]:
        """How ranks are to be read, where ties leave some open."""
        if any((one.nearest.first < one.nearest.last).any() for one in self.lists):
            return [
                "Items at one distance share their ranks; of these, relevant items are listed last."
            ]
        return []

    def to_csv(self) -> str:
        """Comma-separated values: the nearest items of each query, then further relevant items."""
        rows = []
        for one in self.lists:
            about = [one.query, _plain(one.id), _plain(one.label), _plain(one.group), one.score]
            near = list(one.nearest.plain(self.levels))
            listed = {item["row"] for item in near}
            far = (item for item in one.relevant.plain(self.levels) if item["row"] not in listed)
            for item in (*near, *far):
                rows.append([*about, *(item.get(name) for name in ITEM)])
        return text.separated(ABOUT + ITEM, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "format": "truerank-neighbors",
            "distance": self.distance,
            "k": self.k,
            "levels": list(self.levels),
            "metric": self.metric,
            "queries": [one.to_dict(self.levels) for one in self.lists],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank._util.files import to_json

        return to_json(self.to_dict(), path)


def _ranks(first: int, last: int) -> str:
    """'4', or '4-6' where ties leave it open."""
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, str)) else str(value)


# One query's ranking, exactly: its row of distances, sorted, and where each mate stands in it.


PAIRS = 1 << 22
"""Most distances that are held at a time, but for a single row."""


def rank(task: TaskRules, space: Space, queries: Integers, k: int) -> Neighbors:
    """The k nearest items and all mates of these queries, by their row numbers."""
    check_k(k)
    names = [] if task.levels is None else [str(name) for name in task.levels.names]
    step = max(1, PAIRS // space.gallery)
    found: list[NeighborList] = []
    for start in range(0, len(queries), step):
        rows = queries[start : start + step]
        distances = space.block(rows)(0, space.gallery)
        pairs = task.view.block(rows)
        for place, (query, row) in enumerate(zip(rows.tolist(), distances, strict=True)):
            excluded = pairs.excluded.item[pairs.excluded.query == place]
            mine = pairs.relevant.query == place
            one = _Row(task, space, query, row, excluded, pairs.relevant.item[mine])
            found.append(one.listed(k, pairs.grade[mine]))
    return Neighbors(found, space.facts.distance, k, names if len(names) > 1 else [])


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
    """Refuse what is no number of neighbors."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(
            f"The 'k' parameter of neighbors must be an int >= 1. Got {shortened(k)} instead."
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

    def listed(self, k: int, grades: Integers) -> NeighborList:
        """The nearest and the mates; `grades` are the mates', in their order."""
        task, query = self._task, self._query
        return NeighborList(
            query=query,
            **_named(task, query, 0),
            nearest=self._items(self._nearest(k), grades),
            relevant=self._items(self._in_order(self._mates), grades),
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
