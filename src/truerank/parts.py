"""Parts of a result (Result.by) beside each other, the worst first: one row for each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truerank import tables, typesetting
from truerank.core import registry
from truerank.errors import InputError
from truerank.result import Result
from truerank.typesetting import Table
from truerank.wording import count

__all__ = ["Parts"]


@dataclass(frozen=True)
class Parts:
    """The parts of a result by an attribute, the worst first in its first metric."""

    attribute: str
    rows: list[tuple[Any, Result]]
    """Values of the attribute and the results of their queries."""
    metrics: list[str]
    of: int
    """How many parts there are in all."""

    @staticmethod
    def of_result(result: Result, attribute: str, most: int | None = None) -> Parts:
        """Split a result, and keep so many of the worst parts.

        Examples
        --------
        >>> import truerank
        >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
        >>> [(label, part["map@r"].value) for label, part in Parts.of_result(r, "label").rows]
        [('b', 0.5), ('a', 1.0)]
        """
        metrics = [name for name, score in result.items() if score.per_query is not None]
        if not metrics:
            raise InputError("none of these metrics is a mean over queries, which could be split.")
        first = metrics[0]
        parts = result.by(attribute, metrics=[first])
        sign = 1 if registry.find(first).higher_is_better else -1

        def order(row: tuple[Any, Result]) -> tuple[bool, float, int]:
            value = row[1][first].value
            undefined = value != value
            return undefined, 0.0 if undefined else sign * value, -_queries(row[1])

        worst = [value for value, _ in sorted(parts.items(), key=order)[:most]]
        whole = result.by(attribute, values=set(worst))
        return Parts(attribute, [(value, whole[value]) for value in worst], metrics, len(parts))

    def forms(self) -> Mapping[str, Any]:
        """What gives the text in each format but plain text."""
        return {
            "json": self.to_json,
            "csv": self.to_csv,
            "markdown": lambda: typesetting.markdown(self.table()),
            "latex": lambda: typesetting.latex(self.table()),
        }

    def table(self) -> Table:
        """Cells for people, in percent."""
        header = [self.attribute, *map(tables.marked, self.metrics), "queries"]
        rows = [
            [
                str(value),
                *(tables.number(metric)(part[metric].value) for metric in self.metrics),
                f"{_queries(part):,}",
            ]
            for value, part in self.rows
        ]
        return Table(header, rows)

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen."""
        sentence = (
            f"{count(self.of, 'part')} by {self.attribute}, the worst in {self.metrics[0]} first"
        )
        if len(self.rows) < self.of:
            sentence += f"; {len(self.rows):,} are shown"
        return tables.laid_out(self.table(), [f"{sentence}."], rule=rule)

    def to_csv(self) -> str:
        """Comma-separated values, in fractions, at full precision."""
        rows = [
            [value, *(_plain(part[metric].value) for metric in self.metrics), _queries(part)]
            for value, part in self.rows
        ]
        return typesetting.separated([self.attribute, *self.metrics, "queries"], rows)

    def to_json(self) -> str:
        """JSON text."""
        from truerank.files import to_json

        parts = [
            {
                "value": str(value),
                "queries": _queries(part),
                "scores": {metric: _plain(part[metric].value) for metric in self.metrics},
            }
            for value, part in self.rows
        ]
        return to_json({"format": "truerank-parts", "by": self.attribute, "parts": parts})


def _queries(part: Result) -> int:
    return int(part.provenance["queries"])


def _plain(value: float) -> float | None:
    return None if value != value else value
