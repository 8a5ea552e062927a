"""What a sweep found: every copy beside the original, as a table, CSV, a frame or JSON."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from truerank import notebook, tables, typesetting
from truerank.comparison import Comparison, Difference
from truerank.compression.copies import Copy
from truerank.core import registry
from truerank.result import Result
from truerank.typesetting import Table

__all__ = ["Kept", "Sweep"]


@dataclass(frozen=True)
class Kept:
    """A copy, its scores, and how far it is from the original."""

    copy: Copy
    scores: dict[str, float]
    differences: dict[str, Difference]
    """Copy minus original, by metric; none of the original itself."""
    not_worse: bool | None
    """None where there is no interval to tell by."""

    @classmethod
    def of(cls, copy: Copy, result: Result, compared: Comparison | None, margin: float) -> Kept:
        """From a copy's result and its comparison with the original."""
        scores = {name: result[name].value for name in result}
        if compared is None:
            return cls(copy, scores, {}, True)
        differences = {row.metric: row for row in compared.differences}
        judged = [_not_worse(row, margin) for row in differences.values()]
        verdict = None if None in judged else all(judged)
        return cls(copy, scores, differences, False if False in judged else verdict)


def _not_worse(row: Difference, margin: float) -> bool | None:
    if row.interval is None:
        return None
    low, high = row.interval
    higher = registry.find(row.metric).higher_is_better
    return (low if higher else -high) > -margin


@dataclass(frozen=True)
class Sweep:
    """All copies of a sweep, the smallest first."""

    original: Kept
    copies: tuple[Kept, ...]
    metrics: tuple[str, ...]
    margin: float
    confidence: float
    distance: str
    method: str
    """What gives the differences their intervals."""

    @property
    def smallest(self) -> Kept:
        """The fewest bytes that are not worse, of equally many the best; at worst the original."""
        fit = [one for one in self.copies if one.not_worse]
        if not fit:
            return self.original
        least = min(one.copy.bytes for one in fit)
        first = self.metrics[0]
        sign = 1 if registry.find(first).higher_is_better else -1
        alike = [one for one in fit if one.copy.bytes == least]
        return max(alike, key=lambda one: sign * one.scores[first])

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return notebook.block(notebook.table(self._table()), notebook.paragraphs(self.notes()))

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen."""
        return tables.laid_out(self._table(), self.notes(), rule=rule)

    def to_markdown(self) -> str:
        """A Markdown table and the sentences below it."""
        notes = map(typesetting.escape_markdown, self.notes())
        return typesetting.markdown(self._table()) + "\n" + "\n".join(notes) + "\n"

    def to_latex(self) -> str:
        """A LaTeX table (booktabs)."""
        return typesetting.latex(self._table())

    def _table(self) -> Table:
        several = len(self.metrics) > 1
        header = ["copy", "bytes", "of all", *(["metric"] if several else [])]
        header += ["score" if several else tables.marked(self.metrics[0])]
        header += ["difference", "interval", "not worse"]
        rows = []
        for one in (*self.copies, self.original):
            for number, metric in enumerate(self.metrics):
                shown = tables.number(metric)
                row = one.differences.get(metric)
                share = f"{100 * one.copy.bytes / self.original.copy.bytes:.1f} %"
                cells = [str(one.copy), f"{one.copy.bytes:,}", share] if not number else [""] * 3
                cells += [tables.marked(metric)] if several else []
                cells += [shown(one.scores[metric]), *_apart(row, shown)]
                rows.append([*cells, _verdict(one) if not number else ""])
        words = (0, 3, len(header) - 1) if several else (0, len(header) - 1)
        return Table(header, rows, words=words)

    def notes(self) -> list[str]:
        """How to read it, and the verdict."""
        found = self.smallest
        points = f"{100 * self.margin:g} " + ("point" if self.margin == 0.01 else "points")
        if found is self.original:
            verdict = f"No smaller copy is shown to be within {points} of the original."
        else:
            share = self.original.copy.bytes / found.copy.bytes
            verdict = (
                f"Smallest that is not worse: {found.copy}, {found.copy.bytes:,} bytes a vector, "
                f"{share:.3g} times smaller."
            )
        lines = [
            verdict,
            *tables.explained(self.metrics),
            f"Scores in percent. Not worse: the {100 * self.confidence:g} % interval of the paired "
            f"difference (copy minus original, by {self.method}) ends less than {points} "
            "below the original; each interval is by itself.",
        ]
        reasons = {row.reason for one in self.copies for row in one.differences.values()}
        lines += [f"No interval: {reason}." for reason in sorted(filter(None, reasons))]
        return lines

    def _records(self) -> list[dict[str, Any]]:
        found = []
        for one in (*self.copies, self.original):
            for metric in self.metrics:
                row = one.differences.get(metric)
                low, high = (None, None) if row is None or row.interval is None else row.interval
                found.append(
                    {
                        "dims": one.copy.dims,
                        "dtype": one.copy.dtype,
                        "bytes": one.copy.bytes,
                        "metric": metric,
                        "value": one.scores[metric],
                        "difference": None if row is None else row.value,
                        "interval_low": low,
                        "interval_high": high,
                        "not_worse": one.not_worse,
                        "smallest": one is self.smallest,
                        "reason": None if row is None else row.reason,
                    }
                )
        return found

    def to_csv(self) -> str:
        """Comma-separated values, in fractions; a row for each copy and metric, original last."""
        rows = self._records()
        return typesetting.separated(list(rows[0]), [list(row.values()) for row in rows])

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame.from_records(self._records())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        smallest = self.smallest.copy
        return {
            "distance": self.distance,
            "metrics": list(self.metrics),
            "margin": self.margin,
            "confidence": self.confidence,
            "method": self.method,
            "original": {"dims": self.original.copy.dims, "dtype": self.original.copy.dtype,
                         "bytes": self.original.copy.bytes},
            "smallest": {"dims": smallest.dims, "dtype": smallest.dtype, "bytes": smallest.bytes},
            "copies": self._records(),
        }  # fmt: skip

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank.files import to_json

        return to_json(self.to_dict(), path)


def _apart(row: Difference | None, shown: Any) -> list[str]:
    if row is None:
        return ["", ""]
    signed = "-+"[row.value >= 0] + shown(abs(row.value))
    if row.interval is None:
        return [signed, "-"]
    return [signed, f"{shown(row.interval[0])} to {shown(row.interval[1])}"]


def _verdict(one: Kept) -> str:
    if not one.differences:
        return "the original"
    return {True: "yes", False: "no", None: "-"}[one.not_worse]
