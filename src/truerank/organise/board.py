"""A board as people see it: a table, a page, Markdown, JSON."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from truerank import notebook, tables, typesetting
from truerank.core import registry
from truerank.files import to_json
from truerank.organise.ladder import Rung
from truerank.typesetting import Table
from truerank.wording import count

__all__ = ["Board", "Row", "groups"]

WORDS = (1, 2, 8)
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ccc; text-align: right }
th.word, td.word { text-align: left }
p { color: #444 }
code { word-break: break-all }
"""


@dataclass(frozen=True)
class Row:
    """One participant on a board."""

    participant: str
    entry: str
    shown: Rung
    public: Rung | None
    """What was shown before the end, on a final board."""
    ranks: tuple[int, int]
    """Best and worst rank that the differences leave open."""
    groups: str
    """Letters of the groups whose members cannot be told apart."""
    openings: int
    flaws: tuple[str, ...]


def groups(order: list[str], told_apart: set[frozenset[str]]) -> dict[str, str]:
    """Letters by name: of two who share a letter, nobody can say which is better.

    A group is a run of neighbours on the board, as long as possible, none of whom is told apart
    from any other.

    Examples
    --------
    >>> groups(["a", "b", "c"], {frozenset("ac")})
    {'a': 'a', 'b': 'ab', 'c': 'b'}
    """
    letters = dict.fromkeys(order, "")
    last = number = 0
    for start in range(len(order)):
        stop = start + 1
        while stop < len(order) and all(
            frozenset((order[stop], other)) not in told_apart for other in order[start:stop]
        ):
            stop += 1
        if stop > last:
            for name in order[start:stop]:
                letters[name] += _letter(number)
            last, number = stop, number + 1
    return letters


def _letter(number: int) -> str:
    """a to z, then (27), (28) and so on."""
    return "abcdefghijklmnopqrstuvwxyz"[number] if number < 26 else f"({number + 1})"


@dataclass(frozen=True)
class Board:
    """Participants as they stand, as a table, a page, Markdown or JSON."""

    rows: list[Row]
    rules: dict[str, Any]
    commitment: str | None
    final: bool
    classes: int
    queries: int
    openings: int
    head: str
    """The hash of the log's last line."""
    refused: dict[str, str]
    """Files that were not opened, with the reason."""
    equal_items: int = 0
    """Rows that equal another in most of the entries, as rows of equal items do."""

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _table(self) -> Table:
        header = ["ranks", "participant", "entry", "score", "interval", "public", "group"]
        header += ["openings", "notes"]
        rows = []
        for row in self.rows:
            best, worst = row.ranks
            cells = [
                str(best) if best == worst else f"{best}-{worst}",
                row.participant,
                row.entry,
                _written(row.shown.score, row.shown),
                f"{_written(row.shown.low, row.shown)} to {_written(row.shown.high, row.shown)}",
                "" if row.public is None else _written(row.public.score, row.public),
                row.groups,
                f"{row.openings:,}",
                "; ".join(row.flaws),
            ]
            rows.append(cells)
        optional = {"entry", "public", "notes"}
        empty = {
            column
            for column, name in enumerate(header)
            if name in optional and not any(row[column] for row in rows)
        }
        kept = [column for column in range(len(header)) if column not in empty]
        words = tuple(place for place, column in enumerate(kept) if column in WORDS)
        return Table(
            [header[column] for column in kept],
            [[row[column] for column in kept] for row in rows],
            words,
        )

    @property
    def title(self) -> str:
        """What is shown."""
        part = "final, private part" if self.final else "public part"
        return f"Leaderboard by {self.rules['metric']} ({part})"

    def notes(self) -> list[str]:
        """How to read it."""
        confidence = f"{100 * self.rules['confidence']:g} %"
        metric = registry.parse(self.rules["metric"])
        direction = "higher" if registry.definition(metric).higher_is_better else "lower"
        rounded = "" if self.final else ", both rounded to the interval's own resolution"
        lines = [
            f"{count(self.queries, 'query')} in {count(self.classes, 'class')}, "
            f"{self.rules['distance']} distance; scores in percent, {direction} is better, with "
            f"intervals of {confidence}{rounded}.",
            "Ranks are what is left open once differences that are more than noise (paired over "
            f"classes, Holm, {confidence}) are taken for real; participants who share a letter "
            "cannot be told apart.",
        ]
        if self.final:
            lines.append(
                "Judged is the entry that the participant chose, or else the one that the public "
                "board showed last."
            )
        else:
            lines.append(
                "A new entry is shown if it beats the participant's shown score by more than "
                "noise, the more entries the more (the ladder of Blum and Hardt); the private part "
                "is not looked at."
            )
        if self.equal_items:
            lines.append(
                f"{self.equal_items:,} rows equal another in most of the entries: the items "
                "themselves may be equal, which is no flaw of an entry."
            )
        lines.append(f"{count(self.openings, 'opening')}; the log ends with {self.head}.")
        lines.append(f"The labels are committed to by {self.commitment}.")
        lines += [f"Not opened: {name}: {why}" for name, why in self.refused.items()]
        return lines

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen."""
        return tables.laid_out(self._table(), self.notes(), rule=rule)

    def to_markdown(self) -> str:
        """A Markdown table with its notes."""
        lines = [f"- {typesetting.escape_markdown(line)}" for line in self.notes()]
        title = typesetting.escape_markdown(self.title)
        return f"# {title}\n\n{typesetting.markdown(self._table())}\n" + "\n".join([*lines, ""])

    def to_html(self) -> str:
        """A page that needs nothing else: no script, no picture, nothing from elsewhere."""
        table = self._table()

        def line(cells: list[str], tag: str) -> str:
            kinds = [" class=word" * (column in table.words) for column in range(len(cells))]
            marked = [
                f"<{tag}{kind}>{notebook.escape(cell)}</{tag}>"
                for kind, cell in zip(kinds, cells, strict=True)
            ]
            return f"<tr>{''.join(marked)}</tr>"

        title = notebook.escape(self.title)
        parts = [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
            f"<table>\n<thead>{line(table.header, 'th')}</thead>\n<tbody>",
            *(line(row, "td") for row in table.rows),
            "</tbody>\n</table>",
            *(f"<p>{notebook.escape(note)}</p>" for note in self.notes()),
            "</body>\n</html>",
        ]
        return "\n".join(parts) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: what the table shows, in fractions."""
        return {
            "format": "truerank-leaderboard",
            **self.rules,
            "commitment": self.commitment,
            "final": self.final,
            "queries": self.queries,
            "classes": self.classes,
            "openings": self.openings,
            "head": self.head,
            "refused": dict(self.refused),
            "rows": [
                {
                    "participant": row.participant,
                    "entry": row.entry,
                    "score": row.shown.score,
                    "interval": [row.shown.low, row.shown.high],
                    "resolution": row.shown.step,
                    "public_score": None if row.public is None else row.public.score,
                    "ranks": list(row.ranks),
                    "groups": row.groups,
                    "openings": row.openings,
                    "flaws": list(row.flaws),
                }
                for row in self.rows
            ],
            "equal_items": self.equal_items,
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        return to_json(self.to_dict(), path)


def _written(value: float, rung: Rung) -> str:
    """A score in percent with the decimals of its resolution, no more; of an exact one with two."""
    if rung.step is None:
        return f"{100 * value:.2f}"
    decimals = 0
    while decimals < 12 and round(100 * rung.step, decimals) != round(100 * rung.step, 12):
        decimals += 1
    return f"{100 * value:.{decimals}f}"
