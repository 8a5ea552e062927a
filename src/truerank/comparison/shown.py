"""How a comparison is shown: tables for the screen and for a paper, CSV, a frame, JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from truerank import notebook, tables, typesetting
from truerank.comparison import paper
from truerank.comparison.differences import Difference
from truerank.comparison.standings import Standing
from truerank.comparison.variance import ONLY_RUNS
from truerank.core import registry
from truerank.typesetting import Table

__all__ = ["Comparison"]


@dataclass(frozen=True)
class Comparison:
    """Standings and differences, as tables, a frame or JSON."""

    standings: list[Standing]
    differences: list[Difference]
    confidence: float
    method: str
    skipped: dict[str, str] = field(default_factory=dict)
    """Metrics that some results have and that cannot be compared, with the reason."""

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        parts = [notebook.table(shown) for shown in self._tables()]
        return notebook.block(*parts, notebook.paragraphs(self.notes()))

    @property
    def models(self) -> list[str]:
        """The names of the models, in the order in which they were given."""
        names = (name for row in self.differences for name in (row.first, row.second))
        return list(dict.fromkeys(names))

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen; two models stand side by side in a single table."""
        *others, last = self._tables()
        parts = [tables.laid_out(table, rule=rule) for table in others]
        return "\n\n".join([*parts, tables.laid_out(last, self.notes(), rule=rule)])

    def _tables(self) -> list[Table]:
        if len(self.models) == 2 and all(row.runs == 1 for row in self.standings):
            return [self.side_by_side()]
        return [self._standing_table(), self._difference_table()]

    def side_by_side(self) -> Table:
        """Two models: a row for each metric, with both scores and the test of their difference."""
        first, second = self.models
        values = {(row.metric, row.model): row.value for row in self.standings}
        rows = []
        for row in self.differences:
            shown = tables.number(row.metric)
            scores = [shown(values[row.metric, name]) for name in (first, second)]
            apart = [_signed(row.value, shown), _ends(row.interval, shown)]
            rows.append([tables.marked(row.metric), *scores, *apart, _probability(row.adjusted_p)])
        return Table(["metric", first, second, "difference", "interval", "p (Holm)"], rows)

    def _standing_table(self) -> Table:
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
        return Table(header, rows, words=(0, 1))

    def _difference_table(self) -> Table:
        header = ["metric", "first", "second", "difference", "interval", "p", "p (Holm)"]
        rows = [
            [
                tables.marked(row.metric),
                row.first,
                row.second,
                _signed(row.value, tables.number(row.metric)),
                _ends(row.interval, tables.number(row.metric)),
                _probability(row.p),
                _probability(row.adjusted_p),
            ]
            for row in self.differences
        ]
        return Table(header, rows, words=(0, 1, 2))

    def notes(self) -> list[str]:
        """How to read it."""
        lines = [
            *tables.explained(row.metric for row in self.standings),
            f"Scores in percent. Differences with intervals of {100 * self.confidence:g} %, each "
            f"by itself, by {self.method}; p corrected for all tests here (Holm).",
        ]
        if len(self.models) == 2:
            lines.append("Differences are {} minus {}.".format(*self.models))
        else:
            lines.append(
                "Ranks are what is left open once differences with a corrected p below "
                f"{1 - self.confidence:.3g} are taken for real."
            )
        if any(row.runs > 1 for row in self.standings):
            lines.append(
                "Between runs: over seeds on this very test set. The other intervals, the tests "
                "and the ranks are over test sets and seeds, for the mean of the runs."
            )
        asked = [registry.of_result(row.metric) for row in self.standings]
        lines += registry.said_side_by_side(asked)
        alone = dict.fromkeys(row.only_runs for row in self.differences if row.only_runs)
        lines += [f"Tests {ONLY_RUNS}: {reason}." for reason in alone]
        lines += self.untested()
        for reason in dict.fromkeys(self.skipped.values()):
            names = [name for name, why in self.skipped.items() if why == reason]
            lines.append(f"Skipped {', '.join(names)}: {reason}.")
        return lines

    def untested(self, *, besides: Collection[str] = ()) -> list[str]:
        """Sentences that say why differences, besides those of some metrics, have no test."""
        lines = []
        told = [row for row in self.differences if row.metric not in besides]
        for reason in dict.fromkeys(row.reason for row in told if row.reason):
            names = [row.metric for row in told if row.reason == reason]
            which = "" if len(names) == len(told) else f" of {_listed(names)}"
            lines.append(f"No test{which}: {reason}.")
        return lines

    def to_markdown(self, cells: str = "value") -> str:
        """Write a Markdown table: models as rows, metrics as columns, marks and a caption.

        `cells` are "value", "interval" (the score with its interval) or "runs" (the mean with the
        standard deviation over runs).
        """
        return paper.as_markdown(
            self.standings, self.differences, self.confidence, self.method, cells
        )

    def to_latex(self, cells: str = "value") -> str:
        """Write a LaTeX table (booktabs) with the cells of to_markdown and a caption."""
        return paper.as_latex(self.standings, self.differences, self.confidence, self.method, cells)

    def plot(self, metric: str | None = None, ax: Any = None) -> Any:
        """Draw the runs, the mean and the interval of every model in one metric, by matplotlib.

        `metric` may be left out where a single one is compared; `ax` are axes of yours.
        """
        return import_module("truerank.plots.runs").plot_runs(self, metric, ax)

    def to_csv(self) -> str:
        """Comma-separated values, in fractions, at full precision; rows as in to_frame."""
        rows = self._records()
        return typesetting.separated(list(rows[0]), [list(row.values()) for row in rows])

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for each score, then one for each difference of two models.

        A difference is that of `model` minus `against`; a score has nothing in that column.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame.from_records(self._records())

    def _records(self) -> list[dict[str, Any]]:
        found = [
            _record(
                row.metric,
                row.model,
                row.value,
                row.interval,
                runs=row.runs,
                between=row.between_runs,
                ranks=row.ranks,
            )
            for row in self.standings
        ]
        found += [
            _record(
                row.metric,
                row.first,
                row.value,
                row.interval,
                against=row.second,
                p=row.p,
                adjusted_p=row.adjusted_p,
                reason=row.reason,
            )
            for row in self.differences
        ]
        return found

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


def _record(
    metric: str,
    model: str,
    value: float,
    interval: tuple[float, float] | None,
    *,
    against: str | None = None,
    p: float | None = None,
    adjusted_p: float | None = None,
    runs: int | None = None,
    between: tuple[float, float] | None = None,
    ranks: tuple[int, int] | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """One row of a frame."""
    low, high = interval or (None, None)
    between_low, between_high = between or (None, None)
    best, worst = ranks or (None, None)
    return {
        "metric": metric,
        "model": model,
        "against": against,
        "value": value,
        "interval_low": low,
        "interval_high": high,
        "p": p,
        "adjusted_p": adjusted_p,
        "best_rank": best,
        "worst_rank": worst,
        "runs": runs,
        "between_runs_low": between_low,
        "between_runs_high": between_high,
        "reason": reason,
    }


def _signed(value: float, shown: Callable[[float | None], str]) -> str:
    return "-+"[value >= 0] + shown(abs(value))


def _ends(interval: tuple[float, float] | None, shown: Callable[[float | None], str]) -> str:
    if interval is None:
        return "-"
    return f"{shown(interval[0])} to {shown(interval[1])}"


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _probability(p: float | None) -> str:
    return "-" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _plain(row: Standing | Difference) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in vars(row).items()
    }
