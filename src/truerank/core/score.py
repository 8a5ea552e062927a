"""Score: the result of one metric with its values per query, and scores at a gallery size.

A score is a triple (lower bound, expected, upper bound) where distances tie; `value` is the
lower bound. Columns hold the values of every query as blocks of tie groups come in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.types import Integers, Reals
from truerank.core import registry
from truerank.core.average import class_mean, mean, plain_mean
from truerank.core.jackknife import Replicates
from truerank.core.metric import Metric, Scale

# A score: one metric's result, with everything needed to believe it.


@dataclass(frozen=True, eq=False)
class PerQuery:
    """Values of every query in input order, NaN for queries that do not count."""

    lower: Reals
    expected: Reals
    upper: Reals

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerQuery) and all(
            np.array_equal(getattr(self, end), getattr(other, end), equal_nan=True)
            for end in ("lower", "expected", "upper")
        )

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists; one list where the three are the same."""
        bounds = {"lower": self.lower, "expected": self.expected, "upper": self.upper}
        if all(np.array_equal(self.lower, other, equal_nan=True) for other in bounds.values()):
            return {"value": _plain_list(self.lower)}
        return {name: _plain_list(values) for name, values in bounds.items()}

    @property
    def terms(self) -> tuple[PerQuery, ...]:
        """Values whose means over queries have the score as their plain mean."""
        return (self,)

    def means(
        self, chosen: npt.NDArray[np.int64], classes: npt.NDArray[np.int64] | None
    ) -> list[float]:
        """Means of lower, expected and upper of some queries, or of their classes; NaN if none."""
        counts = chosen[~np.isnan(self.lower[chosen])]
        ends = [self.lower[counts], self.expected[counts], self.upper[counts]]
        if all(np.array_equal(ends[0], other) for other in ends[1:]):
            ends = ends[:1]
        if classes is None:
            means = [mean(values) for values in ends]
        else:
            means = [class_mean(values, classes[counts]) for values in ends]
        return means if len(means) > 1 else 3 * means

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> PerQuery:
        """The inverse of to_dict."""
        lower, expected, upper = (
            np.array([np.nan if v is None else v for v in data.get(name, data.get("value"))], float)
            for name in ("lower", "expected", "upper")
        )
        if "levels" in data:
            levels = tuple(PerQuery.from_dict(level) for level in data["levels"])
            return LevelsPerQuery(lower, expected, upper, levels)
        return PerQuery(lower, expected, upper)


def _mean_where_known(levels: Sequence[Reals]) -> Reals:
    """The mean of each query's values, one after another; NaN where all are."""
    table = np.stack(levels)
    held = ~np.isnan(table)
    total = np.zeros(table.shape[1])
    for level in np.where(held, table, 0.0):
        total = total + level
    return np.asarray(total / np.where(held.any(axis=0), held.sum(axis=0), np.nan), np.float64)


def _plain_list(values: Reals) -> list[float | None]:
    return [None if v != v else v for v in values.tolist()]


@dataclass(frozen=True, eq=False)
class LevelsPerQuery(PerQuery):
    """A mean over levels, query by query: the mean over the levels at which it has a mate.

    A query with a mate at some levels only counts for fewer of the levels' scores, so the mean of
    these values is not the score; the mean of the levels' means is.
    """

    levels: tuple[PerQuery, ...]

    @staticmethod
    def of(levels: Sequence[PerQuery]) -> LevelsPerQuery:
        """Per-query values from those at each level; NaN where a query has no mate at any."""
        lower, expected, upper = (
            _mean_where_known([getattr(level, end) for level in levels])
            for end in ("lower", "expected", "upper")
        )
        return LevelsPerQuery(lower, expected, upper, tuple(levels))

    @property
    def terms(self) -> tuple[PerQuery, ...]:
        """Values at each level; their means over queries have the score as their plain mean."""
        return self.levels

    def __eq__(self, other: object) -> bool:
        mine = self.levels
        return isinstance(other, LevelsPerQuery) and super().__eq__(other) and mine == other.levels

    __hash__ = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists of the values, and of those at each level."""
        return super().to_dict() | {"levels": [level.to_dict() for level in self.levels]}


@dataclass(frozen=True)
class Score:
    """One metric's score: with ties three values, of which `value` is the lower bound."""

    metric: str
    value: float
    lower: float
    expected: float
    upper: float
    chance: float | None = None
    """What a scorer that ignores its input would get on average."""
    attainable: float | None = None
    """What a ranking with all mates first would get."""
    interval: tuple[float, float] | None = None
    interval_reason: str | None = None
    """Why there is no interval, if one was asked for."""
    replicates: Replicates | None = field(default=None, repr=False)
    """In leave-one-out, the score without each fold of the classes: what comparisons pair."""
    n: int = 0
    """Number of queries that count; of pairs, classes or rows for some metrics (`counted`)."""
    reason: str | None = None
    """Why the score is not defined, if it is not."""
    threshold: float | None = None
    """The threshold at which the score was taken, in the distance's own unit."""
    bracket: tuple[float, float] | None = None
    """Where an integral was bounded instead of computed: the exact score lies between these."""
    per_query: PerQuery | None = field(default=None, repr=False)

    def __float__(self) -> float:
        return self.value

    @property
    def counted(self) -> str:
        """What n counts: query, pair, positive pair, negative pair, class or row."""
        from truerank.core import registry

        return registry.find(self.metric).counted

    @property
    def tied(self) -> bool:
        """Whether ties leave more than one possible value."""
        return self.lower < self.upper and self.reason is None

    @property
    def adjusted(self) -> float | None:
        """(score - chance)/(attainable - chance): 0 for luck alone, 1 for the best possible."""
        if self.chance is None or self.attainable is None or self.attainable == self.chance:
            return None
        found = (self.value - self.chance) / (self.attainable - self.chance)
        return found if math.isfinite(found) else None

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Plain JSON values; NaN becomes None."""
        data: dict[str, Any] = {
            name: _plain(getattr(self, name))
            for name in ("value", "lower", "expected", "upper", "chance", "attainable", "adjusted")
        }
        data |= {
            "interval": None if self.interval is None else list(self.interval),
            "interval_reason": self.interval_reason,
            "replicates": None if self.replicates is None else self.replicates.to_dict(),
            "n": self.n,
            "counted": self.counted,
            "reason": self.reason,
        }
        if self.threshold is not None:
            data["threshold"] = self.threshold
        if self.bracket is not None:
            data["bracket"] = list(self.bracket)
        if per_query and self.per_query is not None:
            data["per_query"] = self.per_query.to_dict()
        return data

    @staticmethod
    def from_dict(metric: str, data: Mapping[str, Any]) -> Score:
        """The inverse of to_dict."""
        numbers = {
            name: float("nan") if data[name] is None else data[name]
            for name in ("value", "lower", "expected", "upper")
        }
        interval, replicates = data["interval"], data.get("replicates")
        rows = data.get("per_query")
        bracket = data.get("bracket")
        return Score(
            metric,
            **numbers,
            chance=data["chance"],
            attainable=data.get("attainable"),
            interval=None if interval is None else (interval[0], interval[1]),
            interval_reason=data.get("interval_reason"),
            replicates=None if replicates is None else Replicates.from_dict(replicates),
            n=data["n"],
            reason=data["reason"],
            threshold=data.get("threshold"),
            bracket=None if bracket is None else (bracket[0], bracket[1]),
            per_query=None if rows is None else PerQuery.from_dict(rows),
        )


def part_score(
    score: Score, chosen: npt.NDArray[np.int64], classes: npt.NDArray[np.int64] | None
) -> Score:
    """The score of some queries, by their numbers; a mean over classes where these are given."""
    rows = score.per_query
    assert rows is not None
    means = [term.means(chosen, classes) for term in rows.terms]
    lower, expected, upper = (plain_mean(ends) for ends in zip(*means, strict=True))
    return Score(
        score.metric,
        lower if score.value == score.lower else upper,
        lower,
        expected,
        upper,
        n=int(np.count_nonzero(~np.isnan(rows.lower[chosen]))),
        reason=None if lower == lower else _nobody(score.metric, len(means)),
    )


def _nobody(metric: str, levels: int = 1) -> str:
    """Why no query of a part counts."""
    from truerank.core import registry

    if levels > 1:
        return "there is a level at which no query of this part has a relevant item"
    if registry.find(metric).with_mate:
        return "no query of this part has a relevant item"
    return "every query of this part has a relevant item"


def split_undefined(scores: Mapping[str, Score]) -> tuple[dict[str, Score], dict[str, str]]:
    """The scores that exist, and the reasons why the others do not."""
    reasons = {name: score.reason for name, score in scores.items() if score.reason}
    return {name: scores[name] for name in scores if name not in reasons}, reasons


def _plain(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)


# A column: one metric's values of every query, as they come in.


@dataclass
class Column:
    """One metric's values as they come in: grades of at least `grade` are relevant."""

    metric: Metric
    grade: int
    scale: Scale
    values: Reals
    totals: Integers
    candidates: Integers

    @staticmethod
    def of(metric: Metric, grade: int, scale: Scale, queries: int) -> Column:
        """An empty column."""
        graded = registry.definition(metric).graded and metric.get("level") is None
        grades = len(scale.values) if graded else 1
        return Column(
            metric,
            0 if graded else grade,
            scale if graded else Scale(np.ones(1)),
            np.full((3, queries), np.nan),
            np.zeros((queries, grades), np.int64),
            np.zeros(queries, np.int64),
        )


def share_counts(columns: list[Column]) -> None:
    """Let columns of one grade have their mates and candidates in the same arrays."""
    held: dict[tuple[int, tuple[int, ...]], Column] = {}
    for column in columns:
        first = held.setdefault((column.grade, column.totals.shape), column)
        column.totals, column.candidates = first.totals, first.candidates


def put(table: npt.NDArray[Any], rows: Integers | slice, values: npt.NDArray[Any]) -> None:
    """table[:, rows] = values, line by line: several at once are put element by element."""
    for line, own in zip(table, values, strict=True):
        line[rows] = own


def as_run(rows: Integers) -> Integers | slice:
    """The rows, as a slice where they follow one another, which is filled much sooner."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


# Scores at one size of the gallery, and why others have none there.


@dataclass(frozen=True)
class AtSize:
    """The metrics that have a law at one gallery size, and the reasons why the others do not."""

    size: int
    scores: Mapping[str, Score]
    reasons: Mapping[str, str]

    def without_undefined(self) -> AtSize:
        """The same with undefined scores among the reasons."""
        scores, reasons = split_undefined(self.scores)
        return AtSize(self.size, scores, self.reasons).but(reasons)

    def but(self, reasons: Mapping[str, str]) -> AtSize:
        """The same with further metrics that have no score here."""
        return AtSize(self.size, self.scores, {**self.reasons, **reasons})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; values of single queries are left out."""
        return {
            "size": self.size,
            "scores": {name: score.to_dict(per_query=False) for name, score in self.scores.items()},
            "skipped": dict(self.reasons),
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> AtSize:
        """The inverse of to_dict."""
        scores = {name: Score.from_dict(name, score) for name, score in data["scores"].items()}
        return AtSize(int(data["size"]), scores, dict(data["skipped"]))
