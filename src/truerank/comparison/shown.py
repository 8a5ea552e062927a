"""How a comparison is shown: tables of standings and of differences, how to read them, JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from truerank import tables
from truerank.comparison.differences import Difference
from truerank.comparison.standings import Standing

__all__ = ["Comparison"]


@dataclass(frozen=True)
class Comparison:
    """Standings and differences, as tables or JSON."""

    standings: list[Standing]
    differences: list[Difference]
    confidence: float
    method: str
    skipped: dict[str, str] = field(default_factory=dict)
    """Metrics that some results have and that cannot be compared, with the reason."""

    def __str__(self) -> str:
        parts = [tables.text(*self._standing_cells()), tables.text(*self._difference_cells())]
        return tables.printable("\n\n".join([*parts, "\n".join(self.notes())]))

    __repr__ = __str__

    def _standing_cells(self) -> tuple[list[str], list[list[str]]]:
        several = any(row.runs > 1 for row in self.standings)
        header = ["metric", "model", "score", "interval", "ranks"]
        header[4:4] = ["runs", "between runs"] if several else []
        rows = []
        for row in self.standings:
            shown = tables.number(row.metric)
            cells = [tables.marked(row.metric), row.model, shown(row.value)]
            cells.append(_ends(row.interval, shown))
            cells += [str(row.runs), _ends(row.between_runs, shown)] if several else []
            rows.append([*cells, f"{row.ranks[0]}-{row.ranks[1]}"])
        return header, rows

    def _difference_cells(self) -> tuple[list[str], list[list[str]]]:
        header = ["metric", "first", "second", "difference", "interval", "p", "p (Holm)"]
        rows = [
            [
                tables.marked(row.metric),
                row.first,
                row.second,
                "-+"[row.value >= 0] + tables.number(row.metric)(abs(row.value)),
                _ends(row.interval, tables.number(row.metric)),
                _probability(row.p),
                _probability(row.adjusted_p),
            ]
            for row in self.differences
        ]
        return header, rows

    def notes(self) -> list[str]:
        """How to read it."""
        lines = [
            *tables.explained(row.metric for row in self.standings),
            f"Scores in percent. Differences with intervals of {100 * self.confidence:g} %, each "
            f"by itself, by {self.method}.",
            "Ranks are what is left open once differences with a corrected p below "
            f"{1 - self.confidence:.3g} are taken for real.",
        ]
        if any(row.runs > 1 for row in self.standings):
            lines.append(
                "Between runs: over seeds on this very test set; the other intervals and the tests "
                "are over test sets, for the mean of the runs."
            )
        reasons = dict.fromkeys(row.reason for row in self.differences if row.reason)
        lines += [f"No test: {reason}." for reason in reasons]
        for reason in dict.fromkeys(self.skipped.values()):
            names = [name for name, why in self.skipped.items() if why == reason]
            lines.append(f"Skipped {', '.join(names)}: {reason}.")
        return lines

    def to_markdown(self) -> str:
        """Two Markdown tables: standings and differences."""
        return (
            tables.markdown(*self._standing_cells())
            + "\n"
            + tables.markdown(*self._difference_cells())
        )

    def to_latex(self) -> str:
        """Two LaTeX tabulars (booktabs): standings and differences."""
        return (
            tables.latex(*self._standing_cells()) + "\n" + tables.latex(*self._difference_cells())
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "format": "truerank-comparison",
            "confidence": self.confidence,
            "method": self.method,
            "standings": [_plain(row) for row in self.standings],
            "differences": [_plain(row) for row in self.differences],
            "skipped": dict(self.skipped),
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank.files import to_json

        return to_json(self.to_dict(), path)


def _ends(interval: tuple[float, float] | None, shown: Callable[[float | None], str]) -> str:
    if interval is None:
        return "-"
    return f"{shown(interval[0])} to {shown(interval[1])}"


def _probability(p: float | None) -> str:
    return "-" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _plain(row: Standing | Difference) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in vars(row).items()
    }
