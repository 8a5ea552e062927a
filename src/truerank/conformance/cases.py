"""Cases for a metric function: a few small queries, as arguments of the four forms of calls.

A case holds its queries as plain values: who is in each list, with which score and grade. It
gives the arguments, the same as readable text, and every case that is one query or item
smaller. Embeddings have rows of length 1 in short fractions, so that all similarities are exact
in float32 and cosine, inner product and euclidean distance rank and tie alike.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

CALLS = ("embeddings", "scores", "lists", "qrels")
"""How a function may be called."""


@dataclass(frozen=True)
class ListedItem:
    """One item of a query's list."""

    name: str
    score: float
    grade: int = 0
    """How relevant it is: 0 for an irrelevant item, below 0 for junk."""
    label: float | None = None
    """Of a row; it then says who is relevant, and the grade says nothing."""


@dataclass(frozen=True)
class Query:
    """One query: its list, in the order of the input."""

    entries: tuple[ListedItem, ...]
    missing: tuple[ListedItem, ...] = ()
    """Relevant items that are not in the list."""
    label: float | None = None
    own: int | None = None
    """Where the query itself stands among the entries, if it does."""
    judged: bool = True
    """Whether there are judgements of it at all."""


@dataclass(frozen=True)
class Case:
    """What is put to the function in one call."""

    name: str
    topic: str
    call: str
    queries: tuple[Query, ...]
    rows: tuple[tuple[int, ...], ...] = ()
    """Of embeddings, in units of 1/denominator."""
    labels: tuple[float, ...] = ()
    denominator: int = 1
    arrangement: str = field(default="", compare=False)
    """Which order of the same items this is, if there are several."""

    @property
    def size(self) -> tuple[int, int]:
        """How large it is to somebody who checks it: items, then queries."""
        if self.rows:
            return len(self.rows), len(self.rows)
        items = sum(len(query.entries) + len(query.missing) for query in self.queries)
        return items, len(self.queries)

    def arguments(self) -> tuple[Any, Any]:
        """The two arguments of the call, as plain lists and dictionaries."""
        if self.call == "embeddings":
            rows = [[part / self.denominator for part in row] for row in self.rows]
            return rows, list(self.labels)
        if self.call == "scores":
            scores = [[entry.score for entry in query.entries] for query in self.queries]
            return scores, [[entry.grade for entry in query.entries] for query in self.queries]
        if self.call == "lists":
            lists = [[entry.name for entry in query.entries] for query in self.queries]
            return lists, [_relevant(query) for query in self.queries]
        run = {
            f"q{number}": {entry.name: entry.score for entry in query.entries}
            for number, query in enumerate(self.queries, start=1)
            if query.entries
        }
        judged = {
            f"q{number}": {
                entry.name: entry.grade
                for entry in (*query.entries, *query.missing)
                if entry.grade != 0 or not any(_judged(query))
            }
            for number, query in enumerate(self.queries, start=1)
            if query.judged
        }
        return judged, run

    def described(self) -> list[str]:
        """The input, in lines."""
        if self.call == "embeddings":
            unit = f"/{self.denominator}"
            return [
                f"row {number}, label {label:.15g}: ({' '.join(map(str, row))}){unit}"
                for number, (row, label) in enumerate(zip(self.rows, self.labels, strict=True))
            ]
        lines = []
        for number, query in enumerate(self.queries, start=1):
            start = f"query {number}: " if len(self.queries) > 1 else ""
            if self.call == "scores":
                scores = " ".join(f"{entry.score:.12g}" for entry in query.entries)
                grades = " ".join(str(entry.grade) for entry in query.entries)
                lines.append(f"{start}scores {scores}, relevance {grades}")
            elif self.call == "lists":
                found = " ".join(entry.name for entry in query.entries) or "nothing"
                relevant = " ".join(_relevant(query)) or "nothing"
                lines.append(f"{start}returned {found}, relevant {relevant}")
            else:
                judged, run = self.arguments()
                shown, grades = (
                    ", ".join(f"{name} {value:.12g}" for name, value in part.items())
                    for part in (run.get(f"q{number}", {}), judged.get(f"q{number}", {}))
                )
                lines.append(f"{start}run {shown or 'without it'}; qrels {grades or 'without it'}")
        return lines

    def smaller(self) -> Iterator[Case]:
        """Every case that lacks one row, query or item of this one."""
        if self.rows:
            for gone in range(len(self.rows)):
                rows = [row for number, row in enumerate(self.rows) if number != gone]
                labels = [label for number, label in enumerate(self.labels) if number != gone]
                if len(rows) > 1:
                    yield of_rows(self.name, self.topic, rows, labels, self.denominator)
            return
        for gone in range(len(self.queries) if len(self.queries) > 1 else 0):
            yield self._with(q for number, q in enumerate(self.queries) if number != gone)
        if self.call == "scores":
            for column in range(len(self.queries[0].entries)):
                if len(self.queries[0].entries) > 1:
                    yield self._with(_without(query, column) for query in self.queries)
            return
        for number, query in enumerate(self.queries):
            others = [_without(query, place) for place in range(len(query.entries))]
            others += [
                replace(query, missing=query.missing[:place] + query.missing[place + 1 :])
                for place in range(len(query.missing))
            ]
            for other in others:
                yield self._with((*self.queries[:number], other, *self.queries[number + 1 :]))

    def _with(self, queries: Any) -> Case:
        return replace(self, queries=tuple(queries))


def of_rows(
    name: str,
    topic: str,
    rows: Sequence[Sequence[int]],
    labels: Sequence[float],
    denominator: int,
    arrangement: str = "",
) -> Case:
    """A case of embeddings, each row searched among all; rows of length 1, so that cosine,
    inner product and euclidean distance rank alike, in float32 too.
    """

    def similarity(one: Sequence[int], other: Sequence[int]) -> float:
        dot = sum(a * b for a, b in zip(one, other, strict=True))
        return float(Fraction(dot, denominator**2))

    queries = tuple(
        Query(
            tuple(
                ListedItem(str(number), similarity(row, other), label=labels[number])
                for number, other in enumerate(rows)
            ),
            label=labels[own],
            own=own,
        )
        for own, row in enumerate(rows)
    )
    fixed = tuple(tuple(row) for row in rows)
    return Case(name, topic, "embeddings", queries, fixed, tuple(labels), denominator, arrangement)


def _without(query: Query, place: int) -> Query:
    return replace(query, entries=query.entries[:place] + query.entries[place + 1 :])


def _judged(query: Query) -> list[ListedItem]:
    return [entry for entry in (*query.entries, *query.missing) if entry.grade != 0]


def _relevant(query: Query) -> list[str]:
    """Names, each once; the repeated entries of a list are one item."""
    return list(dict.fromkeys(entry.name for entry in _judged(query) if entry.grade > 0))


# Embeddings whose similarities are exact in every precision: rows of length 1 in short fractions.
#
# Every component is a whole number over 4 (16, 64 where there are more rows), every row has
# length 1, and every inner product is a multiple of the square of that: cosine, inner product and
# euclidean distance rank alike and tie alike in float32, however they are computed.


DIMENSIONS = 8
TRIES = 20_000


def drawn(
    name: str,
    topic: str,
    labels: Sequence[float],
    wanted: Callable[[Case], bool],
    *,
    repeat: Sequence[tuple[int, int]] = (),
) -> Case:
    """The first case of a seeded sequence that is as wanted; `repeat` makes rows equal."""
    draw = random.Random(name)
    denominator = 4 if len(labels) <= 6 else 16 if len(labels) <= 12 else 64
    for _ in range(TRIES):
        rows = [_unit(draw, denominator) for _ in labels]
        for place, like in repeat:
            rows[place] = rows[like]
        case = of_rows(name, topic, rows, labels, denominator)
        if wanted(case):
            return case
    raise RuntimeError(f"no rows for the case {name!r}")


def shuffled(case: Case, seed: int, arrangement: str) -> Case:
    """The same rows in another order."""
    order = list(range(len(case.rows)))
    random.Random(seed).shuffle(order)
    return of_rows(
        case.name,
        case.topic,
        [case.rows[place] for place in order],
        [case.labels[place] for place in order],
        case.denominator,
        arrangement,
    )


def _unit(draw: random.Random, denominator: int) -> list[int]:
    """Whole numbers whose squares add up to the denominator's square."""
    ends = 1 if denominator <= 16 else 2  # few large numbers are squares, many the sum of two
    while True:
        row: list[int] = []
        left = denominator**2
        for _ in range(DIMENSIONS - ends):
            most = math.isqrt(left)
            row.append(draw.randint(-most, most))
            left -= row[-1] ** 2
        most = math.isqrt(left)
        start = draw.randint(0, most) if ends == 2 else 0
        for first in (*range(start, most + 1), *range(start)) if ends == 2 else (0,):
            last = math.isqrt(left - first**2)
            if last**2 == left - first**2:
                row += [first, last][2 - ends :]
                draw.shuffle(row)
                return row
