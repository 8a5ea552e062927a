"""What an index loses, in parts: each the difference of two scores, which together are the whole.

quantisation = full - stored; cut = stored - stored cut at k; search = stored cut at k - list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import notebook, typesetting
from truerank.core.score import PerQuery, Score
from truerank.files import to_json
from truerank.tables import laid_out, percent
from truerank.typesetting import Table, separated
from truerank.wording import count

__all__ = ["ENDS", "IndexLoss", "Interval", "LossPart", "MetricLoss", "NeighbourRecall"]

Reals = npt.NDArray[np.float64]
ENDS = ("lower", "expected", "upper")
PARTS = ("quantisation", "cut", "search", "total")
Interval = tuple[float, float]


@dataclass(frozen=True)
class LossPart:
    """How much of a metric is lost on one step: positive where the step costs something."""

    lower: float
    expected: float
    upper: float
    """Lower less lower, expected less expected, upper less upper; each rounded once."""
    intervals: Mapping[str, Interval | None]
    """Of lower, expected and upper; None where no class differs from another."""
    reason: str | None
    """Why there are no intervals, if they were asked for."""
    per_query: PerQuery = field(repr=False)

    @property
    def value(self) -> float:
        """What the score, the pessimistic end, loses."""
        return self.lower

    @property
    def interval(self) -> Interval | None:
        """That of the value."""
        return self.intervals["lower"]

    def __float__(self) -> float:
        return self.value

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Plain JSON values."""
        data: dict[str, Any] = {end: _plain(getattr(self, end)) for end in ENDS}
        data["intervals"] = {
            end: None if one is None else list(one) for end, one in self.intervals.items()
        }
        data["reason"] = self.reason
        if per_query:
            data["per_query"] = self.per_query.to_dict()
        return data


@dataclass(frozen=True)
class MetricLoss:
    """One metric on the way from the vectors to what is returned."""

    metric: str
    full: Score
    """Of the whole ranking by the full vectors."""
    stored: Score
    """Of the whole ranking by the vectors that the index stores."""
    at_k: Score
    """Of that ranking cut at k."""
    returned: Score
    """Of the lists; items whose stored vectors are equally far tie."""
    quantisation: LossPart
    cut: LossPart
    search: LossPart
    total: LossPart

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Plain JSON values."""
        scores = {name: getattr(self, name) for name in ("full", "stored", "at_k", "returned")}
        data = {name: score.to_dict(per_query) for name, score in scores.items()}
        return data | {name: getattr(self, name).to_dict(per_query) for name in PARTS}


@dataclass(frozen=True)
class NeighbourRecall:
    """Of the first k places, the share that belongs to the true k nearest; not recall@k."""

    k: int
    value: float
    interval: Interval | None
    reason: str | None
    per_query: Reals = field(repr=False)

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Plain JSON values."""
        data: dict[str, Any] = {"k": self.k, "value": _plain(self.value), "reason": self.reason}
        data["interval"] = None if self.interval is None else list(self.interval)
        if per_query:
            data["per_query"] = [_plain(value) for value in self.per_query.tolist()]
        return data


class IndexLoss(Mapping[str, MetricLoss]):
    """What a deployed index loses, by metric string; prints as a table."""

    def __init__(
        self,
        losses: Mapping[str, MetricLoss],
        *,
        full_recall: NeighbourRecall,
        stored_recall: NeighbourRecall,
        provenance: Mapping[str, Any],
        skipped: Mapping[str, str],
    ) -> None:
        self._losses = dict(losses)
        self.full_recall = full_recall
        """neighbour_recall against exact search by the full vectors."""
        self.stored_recall = stored_recall
        """The same by the stored vectors: what the search alone misses."""
        self.provenance = dict(provenance)
        self.skipped = dict(skipped)

    def __getitem__(self, metric: str) -> MetricLoss:
        from truerank.core import registry

        name = metric if metric in self._losses else str(registry.parse(metric))
        if name not in self._losses:
            raise KeyError(f"{metric!r} was not computed; there are {', '.join(self._losses)}")
        return self._losses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._losses)

    def __len__(self) -> int:
        return len(self._losses)

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = notebook.table(self._table()) if self._losses else ""
        return notebook.block(table, notebook.paragraphs(self.summary()))

    def _rows(self, written: Any) -> Iterator[list[Any]]:
        for name, loss in self._losses.items():
            several = any(
                score.lower != score.upper
                for score in (loss.full, loss.stored, loss.at_k, loss.returned)
            )
            for end in ENDS if several else ENDS[:1]:
                yield [
                    name if end == "lower" else "",
                    end,
                    percent(getattr(loss.full, end)),
                    *(written(getattr(loss, part), end) for part in PARTS[:3]),
                    percent(getattr(loss.returned, end)),
                ]

    def _table(self) -> Table:
        def written(part: LossPart, end: str) -> str:
            interval = part.intervals[end]
            ends = "" if interval is None else f" ({' to '.join(map(_change, interval))})"
            return f"{_change(getattr(part, end))}{ends}"

        header = ["metric", "bound", "full", "quantisation", "cut", "search", "returned"]
        return Table(header, list(self._rows(written)), words=(0, 1))

    def summary(self) -> list[str]:
        """Sentences below the table."""
        facts = self.provenance
        told = (
            "In percent: the full vectors' score, what is lost on the way, and the lists' score, "
            "which is the first less the three losses."
        )
        lines = [
            told if self._losses else "In percent; without labels there are no metrics to lose.",
            f"{count(facts['queries'], 'query')} against "
            f"{count(facts['gallery'], 'gallery item')}, "
            f"{count(facts['asked'], 'place')} asked for; full vectors by {facts['distance']} "
            f"distance, stored ones by {facts['stored_distance']}"
            f"{'' if facts['quantised'] else ' (the same vectors)'}.",
        ]
        for recall, of in ((self.full_recall, "full"), (self.stored_recall, "stored")):
            interval = ""
            if recall.interval is not None:
                interval = f" ({' to '.join(map(percent, recall.interval))})"
            lines.append(
                f"neighbour_recall@{recall.k} against exact search by the {of} vectors: "
                f"{percent(recall.value)}{interval}."
            )
        if facts["confidence"] is not None:
            lines.append(
                f"Intervals of {100 * facts['confidence']:g} % by bootstrap of whole "
                f"{facts['unit']}, paired; conditional on this gallery."
            )
        reasons = dict.fromkeys(
            part.reason
            for loss in self._losses.values()
            for part in (loss.quantisation, loss.cut, loss.search)
            if part.reason is not None
        )
        return lines + [f"No interval: {reason}." for reason in reasons]

    def to_text(self, *, rule: bool = False) -> str:
        """A table and the sentences below it, as wide as the screen."""
        if not self._losses:
            return typesetting.printable("\n".join(self.summary()))
        return laid_out(self._table(), self.summary(), rule=rule)

    def to_markdown(self) -> str:
        """A Markdown table."""
        return typesetting.markdown(self._table())

    def to_latex(self) -> str:
        """A booktabs tabular."""
        return typesetting.latex(self._table())

    def to_csv(self) -> str:
        """Fractions at full precision: a row for each metric, step and bound."""
        header = ["metric", "step", "bound", "value", "interval_low", "interval_high"]
        rows: list[list[Any]] = []
        for name, loss in self._losses.items():
            for step in ("full", "stored", "at_k", "returned"):
                score = getattr(loss, step)
                rows += [[name, step, end, getattr(score, end), None, None] for end in ENDS]
            for step in PARTS:
                part = getattr(loss, step)
                rows += [
                    [name, step, end, getattr(part, end), *(part.intervals[end] or (None, None))]
                    for end in ENDS
                ]
        for step, recall in (("full", self.full_recall), ("stored", self.stored_recall)):
            ends = recall.interval or (None, None)
            rows.append([f"neighbour_recall@{recall.k}", step, "value", recall.value, *ends])
        return separated(header, rows)

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "format": "truerank-index-loss",
            "schema_version": 1,
            "losses": {name: loss.to_dict(per_query) for name, loss in self._losses.items()},
            "neighbour_recall": {
                "full": self.full_recall.to_dict(per_query),
                "stored": self.stored_recall.to_dict(per_query),
            },
            "skipped": self.skipped,
            "provenance": self.provenance,
        }

    def to_json(self, path: Any = None, per_query: bool = True) -> str:
        """The JSON text; written to `path` in one step if given."""
        return to_json(self.to_dict(per_query), path)


def _change(value: float) -> str:
    """A difference in percent, such as '0.25', never '-0.00'."""
    return percent(round(value, 4) + 0.0)


def _plain(value: float) -> float | None:
    return None if value != value else float(value)
