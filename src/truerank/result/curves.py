"""Curves of a result: CMC and bars computed, those of metric families taken, all thinned, saved.

The JSON keeps some points of a curve: a point is left out if it lies within a two-thousandth of
the axis (edges of a band: a thousandth) of the straight lines between the others, whether the
axis is linear or logarithmic, and at most 1,000 are kept. Columns go by name, so that a later
version may add some; an unknown version is not drawn. Threshold metrics draw their curves in
their own files (metrics/thresholds).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.errors import InputError, shortened
from truerank._util.text import count, level_name
from truerank._util.types import Integers, Reals
from truerank.core import registry
from truerank.core.average import mean
from truerank.core.curve import (
    FIRST_RANKS,
    POINTWISE,
    SIMULTANEOUS,
    Curve,
    CurveMoves,
    is_band,
    rank_ladder,
)
from truerank.core.metric import Metric, Scale
from truerank.core.score import Score
from truerank.core.student import quantile
from truerank.core.tie_groups import TieGroups
from truerank.intervals.bands import put_band
from truerank.intervals.interval import FEWEST_DRAWN, ends

if TYPE_CHECKING:
    from truerank.result.result import Result
    from truerank.task.task import TaskRules


# The CMC curve, from where every query's nearest mate stands; families draw the other curves.
#
# A curve is a mapping from the names of its columns to arrays of one length, the abscissa first.


ENDS = ("lower", "expected", "upper")
MOST_RANKS = 1_000_000


@dataclass(frozen=True)
class NearestRelevant:
    """The tie group of every query's nearest mate: all that the CMC curve depends on."""

    before: Integers
    size: Integers
    relevant: Integers
    moves: CurveMoves | None = None
    """The curve without each fold, at the ranks of a ladder, where bands are wanted."""
    confidence: float = 0.95
    band_reason: str | None = None
    """Why there is no band, if one was wanted."""

    def cmc(self, ranks: Integers, with_band: bool = True) -> Curve:
        """hit@k for each of these ranks, with its tie bounds and its bands."""
        triples, times = self._distinct
        before, size, relevant = triples
        groups = TieGroups(
            np.arange(len(times) + 1),
            before,
            size,
            relevant.astype(np.int32)[:, None],
            before + size,
        )
        hit = registry.ranking(Metric("hit", 1)).per_query
        one = Scale(np.ones(1))
        last = int((before + size).max(initial=1))  # behind it all are found
        some, place = np.unique(np.minimum(ranks, last), return_inverse=True)
        found = [hit(groups, Metric("hit", rank), one) for rank in some.tolist()]
        values = np.array([[mean(end, times) for end in triple] for triple in found]).T
        columns = dict(zip(ENDS, values.reshape(len(ENDS), -1)[:, place], strict=True))
        if with_band and self.moves is not None:
            band = self._band(self.moves)
            for name in (*POINTWISE, *SIMULTANEOUS):
                if name in band:
                    columns[name] = np.interp(ranks, band["rank"], band[name])
        return Curve("cmc", {"rank": ranks, **columns}, self.band_reason)

    def every_rank(self) -> Curve:
        """The curve as far as it rises: all of the first ranks, and ever fewer of those behind."""
        last = int((self.before + self.size).max(initial=1))
        return self.cmc(rank_ladder(last))

    def _band(self, moves: CurveMoves) -> Curve:
        """The curve at some ranks with its bands, made when it is first asked for."""
        if self._made:
            return self._made[0]
        last = int((self.before + self.size).max(initial=1))
        curve = self.cmc(rank_ladder(last), with_band=False)
        ladder = rank_ladder(moves.items or last)
        at = np.searchsorted(ladder, np.minimum(curve["rank"], ladder[-1]))
        self._made.append(_widened(put_band(curve, moves.at(at), self.confidence)))
        return self._made[0]

    @cached_property
    def _made(self) -> list[Curve]:
        return []

    @cached_property
    def _distinct(self) -> tuple[Integers, Integers]:
        """The different triples of (before, size, relevant), and how many queries have each."""
        triples = np.stack([self.before, self.size, self.relevant])
        return np.unique(triples, axis=1, return_counts=True)


def _widened(curve: Curve) -> Curve:
    """The curve with the narrowest pointwise band that holds its own and never falls.

    Behind a rank at which all queries but a few have found a mate, intervals are wide again: at
    each rank the band reaches down to the lowest limit from there on, and up to the highest so far.
    """
    if POINTWISE[0] not in curve:
        return curve
    low, high = (curve[name] for name in POINTWISE)
    ends = np.fmin.accumulate(low[::-1])[::-1], np.fmax.accumulate(high)
    known = [np.where(np.isnan(low), np.nan, end) for end in ends]
    return Curve(curve.name, {**curve, **dict(zip(POINTWISE, known, strict=True))})


def check_ranks(ranks: object) -> None:
    """Refuse what is no number of ranks that a curve can have."""
    if type(ranks) is not int or not 1 <= ranks <= MOST_RANKS:
        raise InputError(
            f"The 'ranks' parameter must be an int >= 1 and at most {MOST_RANKS:,}. "
            f"Got {shortened(ranks)}."
        )


def up_to(cmc: Curve, ranks: int) -> Curve:
    """The points of a CMC curve up to a rank; where it has ended, it goes on as it is."""
    kept = cmc["rank"] <= ranks
    columns = {name: values[kept] for name, values in cmc.items()}
    if ranks > cmc["rank"][-1]:
        columns = {name: np.append(values, values[-1]) for name, values in columns.items()}
        columns["rank"][-1] = ranks
    return Curve("cmc", columns, cmc.band_reason)


# The curves of a result: as computed, or as its JSON keeps them; with one of their bands.


BANDS = ("pointwise", "simultaneous")


def check_band(band: object) -> None:
    """Refuse what names no band."""
    if band is not None and not (isinstance(band, str) and band in BANDS):
        raise InputError(
            f"The 'band' parameter must be one of {', '.join(BANDS)} or None. "
            f"Got {shortened(band)} instead."
        )


class DrawnCurves:
    """Curves by name; the CMC curve of a fresh result at any ranks."""

    def __init__(
        self,
        curves: Mapping[str, Curve] | None,
        first_mates: NearestRelevant | None,
        saved: Mapping[str, Any] | None,
        bars: Callable[[], dict[str, Curve]] = dict,
    ) -> None:
        """`bars` follow from what else a result holds, and are not saved; where a curve of one's
        name is there, with a band, it takes its place."""
        self._saved = saved
        self._curves = dict(curves or {}) or read_curves(saved)
        self._first_mates, self._make_bars = first_mates, bars

    @cached_property
    def _bars(self) -> dict[str, Curve]:
        return self._make_bars()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the curves there are."""
        first = ["cmc"] if self._first_mates is not None else []
        others = [name for name in self._curves if name not in self._bars]
        return (*first, *others, *self._bars)

    def get(self, name: str, ranks: int = FIRST_RANKS, band: str | None = "pointwise") -> Curve:
        """A curve, at so many ranks and with one of its bands or none."""
        check_ranks(ranks)
        check_band(band)
        if not isinstance(name, str) or name not in self.names:
            known = ", ".join(self.names)
            hint = f"there are {known}" if known else "it was saved without curves"
            what = f"this result has no curve {shortened(name)}"
            raise InputError(f"{what}; {hint}; evaluate with a metric of its family.")
        if name == "cmc" and self._first_mates is not None:
            curve = self._first_mates.cmc(np.arange(1, ranks + 1))
        elif name == "cmc":
            curve = up_to(self._curves[name], ranks)
        else:
            curve = self._curves.get(name) or self._bars[name]
        return curve.with_band(band)

    def plain(self) -> Mapping[str, Any]:
        """The curves as plain JSON values; as they were, if they were read or written before."""
        if self._saved is None:
            curves = dict(self._curves)
            if self._first_mates is not None and len(self._first_mates.before):
                curves = {"cmc": self._first_mates.every_rank(), **curves}
            self._saved = save_curves(curves) if curves else {}
        return self._saved


# Curves as a result's JSON keeps them: some of their points, so that no eye sees a difference.


VERSION = 1
MOST_POINTS = 1000
MOST_NUMBERS = 32_000
"""Numbers of all curves together, of up to 30 characters each: they stay below a megabyte."""
INVISIBLE = 1 / 2000
BOTH_LOGARITHMIC = ("det",)
"""Curves that are drawn with an ordinate in logarithms, too."""


def save_curves(curves: Mapping[str, Curve]) -> dict[str, Any]:
    """Curves by name as plain JSON values; `points` is how many there were."""
    kept = {name: thinned(curve) for name, curve in curves.items()}
    most = _common_limit([(len(kept[name]), len(curve)) for name, curve in curves.items()])
    saved = {}
    for name, curve in curves.items():
        points = kept[name] if len(kept[name]) <= most else thinned(curve, most)
        columns = {column: _plain(values[points]) for column, values in curve.items()}
        saved[name] = {"points": len(next(iter(curve.values()))), "columns": columns}
        if curve.band_reason is not None:
            saved[name]["band_reason"] = curve.band_reason
    return {"version": VERSION, "curves": saved}


def _common_limit(sizes: list[tuple[int, int]]) -> int:
    """Most points that a curve may keep, from (points, columns) that each would need."""
    left, columns = MOST_NUMBERS, sum(width for _, width in sizes)
    for points, width in sorted(sizes):
        if points * columns > left:
            return left // columns
        left, columns = left - points * width, columns - width
    return MOST_POINTS


def read_curves(data: Mapping[str, Any] | None) -> dict[str, Curve]:
    """The curves that were saved; none of those of a version that is not known."""
    if data is None or data["version"] != VERSION:
        return {}
    return {
        name: Curve(
            name,
            {column: _array(values) for column, values in one["columns"].items()},
            one.get("band_reason"),
        )
        for name, one in data["curves"].items()
    }


def _plain(values: npt.NDArray[Any]) -> list[Any]:
    if values.dtype.kind == "U":  # the names of bars
        return list(values.tolist())
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _array(values: list[Any]) -> npt.NDArray[Any]:
    if values and all(isinstance(value, str) for value in values):
        return np.array(values, np.str_)
    if all(isinstance(value, int) for value in values):
        return np.array(values, np.int64)
    return np.array([np.nan if value is None else value for value in values], np.float64)


def thinned(curve: Curve, most: int = MOST_POINTS) -> Integers:
    """The numbers of the points that are enough to draw a curve, ascending, `most` at most.

    Bars are all kept: they have names in place of an abscissa.
    """
    if next(iter(curve.values())).dtype.kind == "U":
        return np.arange(len(next(iter(curve.values()))))
    first, *others = (_filled(np.asarray(values, np.float64)) for values in curve.values())
    count = len(first)
    if count <= most:
        return np.arange(count)
    scales = [first, _logs(first)] if first.min() >= 0 else [first]
    planes = []
    for name, column in zip(list(curve)[1:], others, strict=True):
        share = 0.5 if is_band(name) else 1.0
        axes = [(x, column) for x in scales]
        if curve.name in BOTH_LOGARITHMIC:
            axes.append((_logs(first), _logs(column)))
        planes += [(_on_axis(x), share * _on_axis(y)) for x, y in axes]
    return _simplified(planes, count, most)


def _simplified(planes: list[tuple[Reals, Reals]], count: int, most: int) -> Integers:
    """Douglas and Peucker's points: what is farthest from its chord comes first, as it must."""

    def worst(start: int, stop: int) -> tuple[float, int, int, int]:
        inside = slice(start + 1, stop)
        away = np.max([_from_chord(x, y, start, stop, inside) for x, y in planes], axis=0)
        at = int(np.argmax(away))
        return -float(away[at]), start, start + 1 + at, stop

    kept, stretches = [0, count - 1], [worst(0, count - 1)]
    while stretches and len(kept) < most:
        away, start, cut, stop = heapq.heappop(stretches)
        if -away <= INVISIBLE:
            break
        kept.append(cut)
        for left, right in ((start, cut), (cut, stop)):
            if right - left > 1:
                heapq.heappush(stretches, worst(left, right))
    return np.sort(np.array(kept, np.int64))


def _from_chord(x: Reals, y: Reals, start: int, stop: int, inside: slice) -> Reals:
    """How far points are above or below the line between two others; beyond it, if that rises."""
    across, up = x[stop] - x[start], y[stop] - y[start]
    if across != 0:
        chord = y[start] + (x[inside] - x[start]) / across * up
        return np.asarray(np.abs(y[inside] - chord), np.float64)
    low, high = min(y[start], y[stop]), max(y[start], y[stop])
    return np.asarray(np.abs(y[inside] - np.clip(y[inside], low, high)), np.float64)


def _filled(values: Reals) -> Reals:
    """Values with something between their neighbors for those that are not finite."""
    finite = np.flatnonzero(np.isfinite(values))
    if not len(finite):
        return np.zeros(len(values))
    return np.asarray(np.interp(np.arange(len(values)), finite, values[finite]), np.float64)


def _logs(values: Reals) -> Reals:
    """Logarithms; what is not positive, and off such an axis, is put at its end."""
    positive = values[values > 0]
    if not len(positive):
        return np.zeros(len(values))
    return np.asarray(np.log10(np.maximum(values, positive.min())), np.float64)


def _on_axis(values: Reals) -> Reals:
    """Values as shares of the length of their axis."""
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros(len(values))


# Bars of a result: how often the nearest item is right, level by level, and how bad errors are.
#
# They follow from the scores and from what a result says of its severity, fresh or read back.


def bars_of(scores: Mapping[str, Score], provenance: Mapping[str, Any]) -> dict[str, Curve]:
    """The bars that a result has, as curves over names: "levels" and "severity"."""
    confidence = (provenance.get("intervals") or {}).get("confidence")
    severity = severity_bars(provenance.get("severity"), provenance.get("hierarchy"))
    found = [_levels(scores, confidence), severity]
    return {curve.name: curve for curve in found if curve is not None}


def _levels(scores: Mapping[str, Score], confidence: float | None) -> Curve | None:
    """precision@1 at each level that was asked for, with the interval of each; two at the least.

    Levels have units of their own, so that nothing tells how their scores move together: all bars
    lie in their simultaneous intervals as often as wanted if each misses its own so much less often
    (Bonferroni).
    """
    held: dict[str, Score] = {}
    for name, score in scores.items():
        metric = registry.of_result(name)
        if metric.name in ("precision", "hit") and metric.cut == 1 and score.reason is None:
            level = metric.get("level")
            if level != "mean":
                held.setdefault("finest" if level is None else str(level), score)
    if len(held) < 2:
        return None
    ordered = dict(sorted(held.items(), key=lambda one: one[0] == "finest"))
    columns: dict[str, Any] = {"level": np.array([*ordered], np.str_)}
    for end in ("lower", "expected", "upper"):
        columns[end] = np.array([getattr(score, end) for score in ordered.values()])
    if any(score.interval is not None for score in ordered.values()):
        near = [score.interval or (np.nan, np.nan) for score in ordered.values()]
        columns |= zip(POINTWISE, np.array(near, np.float64).T.copy(), strict=True)
        if confidence is not None:
            each = 1 - (1 - confidence) / len(ordered)
            wide = [_wider(score, confidence, each) for score in ordered.values()]
            columns |= zip(SIMULTANEOUS, np.array(wide, np.float64).T.copy(), strict=True)
    missing = [score.interval_reason for score in ordered.values() if score.interval is None]
    return Curve("levels", columns, next(filter(None, missing), None))


def _wider(score: Score, confidence: float, wanted: float) -> tuple[float, float]:
    """The interval of a score at another confidence; the score is a share.

    Wilson's ends are half a width w around their centre, w^2 (1 + r)^2 = r p (1 - p) + r^2 / 4,
    where r p (1 - p) is the square of t errors: the ends tell r. Where nobody says how many units
    there were, they were as many as an interval needs at the least.
    """
    if score.interval is None:
        return np.nan, np.nan
    low, high = score.interval
    p, half = score.value, (high - low) / 2
    a, b = half**2 - 0.25, 2 * half**2 - p * (1 - p)
    ratio = (-b - math.sqrt(max(b * b - 4 * a * half**2, 0.0))) / (2 * a)
    freedom = FEWEST_DRAWN - 1 if score.replicates is None else score.replicates.freedom
    more = quantile(wanted, freedom) / quantile(confidence, freedom)
    return ends(p, math.sqrt(ratio * p * (1 - p)), more, (0.0, 1.0))


def severity_bars(
    facts: Mapping[str, Any] | None, hierarchy: Mapping[str, Any] | None
) -> Curve | None:
    """Shares of the queries whose first item is wrong, by what it shares, the worst first.

    They are without a band: how they move without each class, only an evaluation knows.
    """
    if not facts or not hierarchy or not facts["queries"]:
        return None
    names = [NONE, *map(str, hierarchy["levels"][:-1])]
    errors = np.array([facts["by_level"].get(name, 0) for name in names], np.int64)
    columns = {"shared": np.array(names, np.str_), "value": errors / int(facts["queries"])}
    return Curve("severity", columns)


# The severity of errors: the level that each query shares with the item found first.


NONE = "none"


@dataclass(frozen=True)
class Severity:
    """Top-1 errors by the finest level that query and found item share; ties count as the worst."""

    queries: int
    errors: int
    by_level: dict[str, int]
    """Level name to number of errors; "none" where not even the coarsest level is shared."""
    by_class: dict[Any, dict[str, int]]
    """Errors by level for each finest label that has any."""

    @staticmethod
    def of(task: TaskRules, nearest: Integers, findable: npt.NDArray[np.bool_]) -> Severity:
        """Count the errors among the queries that have a mate of the finest level to find."""
        levels = task.named_levels
        depth = len(levels)
        names = [NONE, *levels.names[:-1]]
        wrong = (nearest < depth) & findable

        def tally(which: npt.NDArray[np.bool_]) -> dict[str, int]:
            found = np.bincount(nearest[which], minlength=depth).tolist()
            return {name: number for name, number in zip(names, found, strict=True) if number}

        values = levels.finest.values
        by_class = {
            values[code]: tally(wrong & (task.query_codes == code))
            for code in np.unique(task.query_codes[wrong]).tolist()
        }
        return Severity(int(findable.sum()), int(wrong.sum()), tally(wrong), by_class)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the classes."""
        return {"queries": self.queries, "errors": self.errors, "by_level": self.by_level}

    def __str__(self) -> str:
        if not self.errors:
            return f"No top-1 error in {count(self.queries, 'query')}."
        parts = [
            f"{number:,} share {'nothing' if name == NONE else level_name(name)}"
            for name, number in reversed(self.by_level.items())
        ]
        return f"Of {count(self.errors, 'top-1 error')}, {', '.join(parts)}."


# Operating points of a result on its curves: where scores were taken, and at which threshold.


@dataclass(frozen=True)
class Mark:
    """A point of a curve at which a score was taken."""

    metric: str
    x: float
    y: float
    threshold: float | None


def marks_of(result: Result, curve: str) -> list[Mark]:
    """The operating points on a curve, of all scores that have one there."""
    found = []
    for name, score in result.items():
        if score.reason is None:
            at = _place(curve, registry.of_result(name), score)
            if at is not None and all(map(math.isfinite, at)):
                found.append(Mark(name, *at, score.threshold))
    return found


def _place(curve: str, metric: Metric, score: Score) -> tuple[float, float] | None:
    """Where a score lies on a curve, if it does."""
    kind, value = metric.name, score.value
    if kind in ("fnmr", "fnir"):
        kind, value = {"fnmr": "tar", "fnir": "dir"}[kind], 1 - value
    if curve in ("roc", "det") and kind == "eer":
        return (value, 1 - value) if curve == "roc" else (value, value)
    if curve in ("roc", "det") and kind == "tar" and metric["far"] is not None:
        return float(metric["far"]), value if curve == "roc" else 1 - value
    if kind == "dir" and metric["far"] is not None:
        rank = metric["rank"]
        if curve == ("dir" if rank == 1 else f"dir@rank={rank}"):
            return float(metric["far"]), value
    if (curve, kind) == ("f1", "best_f1") and score.threshold is not None:
        return score.threshold, value
    if kind in ("mrp", "mvp", "mrep", "mfr") and metric["tau"] is not None:
        whole = Metric(kind, None, tuple(p for p in metric.options if p[0] != "tau"))
        return (float(metric["tau"]), value) if str(whole) == curve else None
    if kind in ("mrep_max", "mvp_max") and metric["scale"] == "fixed":
        kept = tuple(option for option in metric.options if option[0] != "integral")
        whole = Metric(kind.removesuffix("_max"), None, kept)
        if str(whole) == curve and score.threshold is not None:
            return score.threshold, value
    return None
