"""What a person reads of a ranking: the nearest items, and the ranks of all mates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import notebook, tables, typesetting
from truerank.typesetting import Table
from truerank.wording import count, level_name

__all__ = ["Items", "NeighbourList", "Neighbours"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
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
class NeighbourList:
    """One query: its nearest items, and where all its mates stand."""

    query: int
    """Its row number."""
    id: Any
    label: Any
    group: Any
    nearest: Items
    """Of items at one distance mates come last, as the score takes them."""
    mates: Items
    """All relevant items, from near to far."""
    candidates: int
    """Items that are ranked, mates and others."""
    score: float | None = None
    """Its value in the metric by which it was chosen."""

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
            "mates": list(self.mates.plain(levels)),
        }

    def title(self, metric: str | None = None) -> str:
        """'query 17, id image-017, label cat (map@r 12.50 %)'."""
        known = [("id", self.id), ("label", self.label), ("group", self.group)]
        parts = [f"query {self.query}"]
        parts += [f"{name} {value}" for name, value in known if value is not None]
        line = ", ".join(parts)
        if metric is not None and self.score is not None:
            line += f" ({metric} {tables.percent(self.score)} %)"
        return line

    def table(self, levels: list[str]) -> Table:
        """Cells for people, a row for each of the nearest items."""
        items = self.nearest
        names = [n for n in ("id", "label", "group") if getattr(items, n) is not None]
        judged = ["grade"] if items.grade is not None else []
        rows = []
        for one in items.plain(levels):
            verdict = one["verdict"]
            if verdict == "near miss":
                verdict += f" ({level_name(one['level'])})"
            cells = ["" if one[name] is None else str(one[name]) for name in names]
            grades = [f"{one['grade']:g}" for _ in judged]
            ranks = _ranks(one["rank"], one["last_rank"])
            numbers = [str(one["row"]), f"{one['distance']:.6g}", *grades]
            rows.append([ranks, *cells, verdict, *numbers])
        header = ["rank", *names, "verdict", "row", "distance", *judged]
        return Table(header, rows, words=tuple(range(len(names) + 2)))

    def about_mates(self) -> str:
        """A sentence with the ranks of the mates."""
        of = count(self.candidates, "candidate")
        mates = self.mates
        if not len(mates):
            return f"No mate among {of}."
        shown = [
            _ranks(first, last)
            for first, last in zip(mates.first.tolist(), mates.last.tolist(), strict=True)
        ]
        where = f"at {'rank' if len(shown) == 1 else 'ranks'} {', '.join(shown[:SHOWN])}"
        if len(shown) > SHOWN:
            where += f" and {len(shown) - SHOWN:,} more up to {shown[-1]}"
        return f"{count(len(mates), 'mate')} among {of}, {where}."


@dataclass(frozen=True)
class Neighbours:
    """The rankings of some queries; it prints as a table for each."""

    lists: list[NeighbourList]
    distance: str
    k: int
    """How many of the nearest items are listed."""
    levels: list[str]
    """Names of the levels of the labels from coarse to fine, if there are several."""
    metric: str | None = None
    """By which the worst queries were chosen, if they were."""

    def __len__(self) -> int:
        return len(self.lists)

    def __iter__(self) -> Iterator[NeighbourList]:
        return iter(self.lists)

    def __getitem__(self, place: int) -> NeighbourList:
        return self.lists[place]

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [
            notebook.heading(one.title(self.metric))
            + notebook.table(one.table(self.levels))
            + notebook.paragraphs([one.about_mates()])
            for one in self.lists
        ]
        return notebook.block(*parts, notebook.paragraphs(self.notes()))

    def chosen_by(self, metric: str, scores: Reals) -> Neighbours:
        """The same, with the score of each query in a metric."""
        pairs = zip(self.lists, scores.tolist(), strict=True)
        return replace(self, metric=metric, lists=[replace(one, score=s) for one, s in pairs])

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen."""
        width = typesetting.screen_width()
        parts = [
            "\n".join(typesetting.fill([one.title(self.metric)], width))
            + "\n"
            + tables.laid_out(one.table(self.levels), [one.about_mates()], rule=rule)
            for one in self.lists
        ]
        notes = typesetting.fill(self.notes(), width)
        return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])

    def notes(self) -> list[str]:
        """How ranks are to be read, where ties leave some open."""
        if any((one.nearest.first < one.nearest.last).any() for one in self.lists):
            return ["Items at one distance share their ranks; of these, mates are listed last."]
        return []

    def to_csv(self) -> str:
        """Comma-separated values: the nearest items of each query, then its mates beyond them."""
        rows = []
        for one in self.lists:
            about = [one.query, _plain(one.id), _plain(one.label), _plain(one.group), one.score]
            near = list(one.nearest.plain(self.levels))
            listed = {item["row"] for item in near}
            far = (item for item in one.mates.plain(self.levels) if item["row"] not in listed)
            for item in (*near, *far):
                rows.append([*about, *(item.get(name) for name in ITEM)])
        return typesetting.separated(ABOUT + ITEM, rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "format": "truerank-neighbours",
            "distance": self.distance,
            "k": self.k,
            "levels": list(self.levels),
            "metric": self.metric,
            "queries": [one.to_dict(self.levels) for one in self.lists],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank.files import to_json

        return to_json(self.to_dict(), path)


def _ranks(first: int, last: int) -> str:
    """'4', or '4-6' where ties leave it open."""
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, str)) else str(value)
