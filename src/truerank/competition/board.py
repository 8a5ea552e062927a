"""Board of a competition as text, page, Markdown and JSON, and the ladder of what it shows.

The ladder shows a participant's first entry, rounded; a later one only if it beats the shown
one by more than noise, and by more the more entries were tried (Blum and Hardt, The ladder: a
reliable leaderboard for machine learning competitions, 2015).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from truerank._util import text
from truerank._util.errors import InputError
from truerank._util.files import to_json
from truerank._util.text import TextTable, count
from truerank.core import registry
from truerank.core.registry import display_name
from truerank.core.student import MOST_FREEDOM, quantile
from truerank.intervals.interval import ends
from truerank.result import tables

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
    """Letters of the groups without significant differences."""
    openings: int
    flaws: tuple[str, ...]


def groups(order: list[str], told_apart: set[frozenset[str]]) -> dict[str, str]:
    """Letters by name: of two who share a letter, nobody can say which is better.

    A group is a run of neighbors on the board, as long as possible, none of whom is told apart
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
    """The standings of participants, as a table, a page, Markdown or JSON."""

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

    def _table(self) -> TextTable:
        interval = f"{100 * self.rules['confidence']:g} % interval"
        header = ["ranks", "participant", "entry", "score", interval, "public", "group"]
        header += ["entries scored", "notes"]
        rows = []
        for row in self.rows:
            best, worst = row.ranks
            cells = [
                str(best) if best == worst else f"{best}-{worst}",
                row.participant,
                row.entry,
                _written(row.shown.score, row.shown),
                f"{_written(row.shown.low, row.shown)} to {_written(row.shown.high, row.shown)}",
                tables.MISSING if row.public is None else _written(row.public.score, row.public),
                row.groups,
                f"{row.openings:,}",
                "; ".join(row.flaws),
            ]
            rows.append(cells)
        optional = {"entry", "public", "notes"}
        empty = {
            column
            for column, name in enumerate(header)
            if name in optional and all(row[column] in ("", tables.MISSING) for row in rows)
        }
        kept = [column for column in range(len(header)) if column not in empty]
        words = tuple(place for place, column in enumerate(kept) if column in WORDS)
        return TextTable(
            [header[column] for column in kept],
            [[row[column] for column in kept] for row in rows],
            words,
        )

    @property
    def title(self) -> str:
        """What is shown."""
        part = "final, private part" if self.final else "public part"
        return f"Leaderboard by {display_name(self.rules['metric'])} ({part})"

    @property
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
            "A participant ranks below those from whom the difference is significant (paired over "
            f"classes, Holm, {confidence}); the other ranks are open. Participants who share a "
            "letter have no significant difference.",
        ]
        if self.final:
            lines.append(
                "The scores are of the entry that the participant chose, or of the one that the "
                "public board showed last."
            )
        else:
            lines.append(
                "A new entry is shown if it beats the participant's shown score by more than "
                "noise, the more entries the more (the ladder of Blum and Hardt); the private part "
                "is not scored."
            )
        if self.equal_items:
            lines.append(
                f"{self.equal_items:,} rows equal another in most of the entries: the items "
                "themselves may be equal, which is no flaw of an entry."
            )
        lines.append(f"{count(self.openings, 'scored submission')}; the log ends with {self.head}.")
        lines.append(f"The labels are committed to by {self.commitment}.")
        lines += [f"Not scored: {name}: {why}" for name, why in self.refused.items()]
        return lines

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen."""
        return tables.laid_out(self._table(), self.notes, rule=rule)

    def to_markdown(self) -> str:
        """A Markdown table with its notes."""
        lines = [f"- {text.escape_markdown(line)}" for line in self.notes]
        title = text.escape_markdown(self.title)
        return f"# {title}\n\n{text.markdown(self._table())}\n" + "\n".join([*lines, ""])

    def to_html(self) -> str:
        """A page that needs nothing else: no script, no picture, nothing from elsewhere."""
        table = self._table()

        def line(cells: list[str], tag: str) -> str:
            kinds = [" class=word" * (column in table.words) for column in range(len(cells))]
            marked = [
                f"<{tag}{kind}>{text.escape(cell)}</{tag}>"
                for kind, cell in zip(kinds, cells, strict=True)
            ]
            return f"<tr>{''.join(marked)}</tr>"

        title = text.escape(self.title)
        parts = [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
            f"<table>\n<thead>{line(table.header, 'th')}</thead>\n<tbody>",
            *(line(row, "td") for row in table.rows),
            "</tbody>\n</table>",
            *(f"<p>{text.escape(note)}</p>" for note in self.notes),
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


# The ladder: what a board shows of a score, and when it shows it at all.


@dataclass(frozen=True)
class Measured:
    """A score and how far it can be trusted; never shown as it is."""

    value: float
    low: float
    high: float

    @property
    def noise(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Rung:
    """What a board shows: score and interval in multiples of a step, or exact at the end."""

    score: float
    low: float
    high: float
    step: float | None
    """The resolution; None for exact numbers."""

    @staticmethod
    def of(measured: Measured) -> Rung:
        """Rounded to the resolution of the interval: the score to the nearest, the ends outward."""
        step = resolution(measured.noise)
        return Rung(
            float(round(Fraction(measured.value) / step) * step),
            float(math.floor(Fraction(measured.low) / step) * step),
            float(math.ceil(Fraction(measured.high) / step) * step),
            float(step),
        )

    @staticmethod
    def exact(value: float, interval: tuple[float, float]) -> Rung:
        """The numbers as they are, for a board that answers no further submission."""
        return Rung(value, *interval, None)

    def to_dict(self) -> dict[str, float | None]:
        """Plain JSON values."""
        return dict(vars(self))

    @staticmethod
    def from_dict(data: Any) -> Rung:
        """The inverse of to_dict."""
        try:
            score, low, high = (float(data[name]) for name in ("score", "low", "high"))
            return Rung(score, low, high, None if data["step"] is None else float(data["step"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not the rung of a ladder ({error}).") from error


def resolution(noise: float) -> Fraction:
    """The largest of 1, 2 and 5 times a power of ten that is not above the noise.

    Examples
    --------
    >>> [float(resolution(noise)) for noise in (0.034, 0.0071, 0.5)]
    [0.02, 0.005, 0.5]
    """
    if not 0 < noise < math.inf:
        raise InputError(f"a resolution needs a noise above 0. Got {noise!r}.")
    power = Fraction(1)
    while power > noise:
        power /= 10
    while 10 * power <= noise:
        power *= 10
    return max(factor * power for factor in (1, 2, 5) if factor * power <= noise)


def measure(
    value: float,
    interval: tuple[float, float] | None,
    queries: int,
    t: float,
    limits: tuple[float, float] = (0.0, 1.0),
) -> Measured:
    """A score with its interval, which is at least that of so many independent queries.

    Without that floor a submission whose classes all score alike, or whose score is 0 or 1, would
    have no noise to hide behind. `t` is Student's quantile of the interval.
    """
    low, high = limits
    share = (value - low) / (high - low)
    # Wilson's interval; at the limits of the range it is that of a share that was never seen.
    if 0 < share < 1:
        error = (high - low) * math.sqrt(share * (1 - share) / queries)
        floor = ends(value, error, t, limits)
    else:
        reach = (high - low) * t * t / (queries + t * t)
        floor = (low, low + reach) if share <= 0 else (high - reach, high)
    own = interval or floor
    return Measured(value, min(own[0], floor[0], value), max(own[1], floor[1], value))


def climb(
    shown: Rung | None,
    measured: Measured,
    *,
    tries: int = 1,
    confidence: float = 0.95,
    higher: bool = True,
) -> Rung | None:
    """What a new entry shows beside the participant's best; None if that stays.

    `tries` is how many entries the participant has sent, this one included.

    Examples
    --------
    >>> first = climb(None, Measured(0.613, 0.57, 0.65))
    >>> first.score, climb(first, Measured(0.64, 0.60, 0.68), tries=2), first.step
    (0.62, None, 0.02)
    >>> climb(first, Measured(0.7, 0.66, 0.74), tries=2).score
    0.7
    """
    if shown is not None:
        gain = measured.value - shown.score if higher else shown.score - measured.value
        if not gain > measured.noise * patience(tries, confidence):
            return None
    return Rung.of(measured)


def patience(tries: int, confidence: float = 0.95) -> float:
    """How much wider an interval must be to hold for so many tries at once (Bonferroni).

    The best of many submissions that know nothing lies above the others by luck; this is how far.
    Tries are counted in powers of two.

    Examples
    --------
    >>> [round(patience(tries), 2) for tries in (1, 2, 10, 10_000)]
    [1.0, 1.14, 1.51, 2.39]
    """
    together = 1 << max(0, tries - 1).bit_length()
    at_once = quantile(1 - (1 - confidence) / together, MOST_FREEDOM)
    return at_once / quantile(confidence, MOST_FREEDOM)
