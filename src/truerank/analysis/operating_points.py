"""Operating points: a threshold with all that it leads to, for pairs (1:1) and searches (1:N).

In 1:1 every compared pair is a trial, and `far` is the false match rate (FMR). In 1:N every
query searches a gallery, and a threshold accepts the item that it finds first. Excluded pairs
and junk are no trials. The threshold is written as a short decimal between the last accepted
and the first rejected distance, with a margin to both, so that any arithmetic accepts the same
pairs.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import floor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank._util import text
from truerank._util.cached import cached_property
from truerank._util.errors import InputError
from truerank._util.text import TextTable
from truerank._util.types import Array, Integers, Reals
from truerank.core import registry
from truerank.core.jackknife import FEWEST_CLASSES
from truerank.distance import catalogue
from truerank.distance.base import Distances, Space
from truerank.distance.catalogue import build
from truerank.engine.blocks import largest_float
from truerank.engine.reducers import Collector
from truerank.engine.runner import sweep
from truerank.engine.schedule import resolve_device
from truerank.evaluation.evaluate import evaluate_task
from truerank.evaluation.task_input import check_task, check_threads
from truerank.intervals.interval import mean_interval, rate_interval
from truerank.metrics.thresholds.consistency import ClassTable, ClassTally
from truerank.metrics.thresholds.definitions import NO_IMPOSTORS
from truerank.metrics.thresholds.family import Positives
from truerank.result import tables
from truerank.result.result import Result
from truerank.task.task import TaskRules

# Thresholds as decimal text, rounded so that they accept what was to be accepted.


def as_decimal(space: Space, threshold: float) -> str:
    """A threshold as decimal text that accepts it: up to the next 10^-18, or 27th digit."""
    if space.unit_rounds:
        threshold = float(np.nextafter(threshold, np.inf))
    exact = Decimal(threshold)
    step = Decimal(1).scaleb(-min(18, 26 - exact.adjusted()))
    similar = catalogue.find(space.facts.distance).larger_is_nearer
    outward = ROUND_FLOOR if similar else ROUND_CEILING
    text = f"{exact.quantize(step, outward):f}"
    return registry.parse(f"far@tau={text}").text("tau")


def on_axis(space: Space, scale: float, tau: str) -> str:
    """A threshold on the axis of GOM, as decimal text."""
    exact = Fraction(space.raw(Fraction(tau))) * Fraction(scale)
    step = Decimal(1).scaleb(-18)
    text = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(step, ROUND_CEILING)
    return registry.parse(f"mvp@tau={min(text, Decimal(1)):f}").text("tau")


# Trials of a task, pairs or searches: what must be known of them to choose a threshold.


Ends = tuple[float, float]


@dataclass(frozen=True)
class Judgement:
    """What a threshold leads to."""

    values: dict[str, float]
    intervals: dict[str, Ends | None]
    classes: list[ClassRates]


class Rated(Protocol):
    """What has rates at thresholds, and thresholds at rates."""

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """Return thresholds at which a rate is at most each target, or why there are none."""

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """Return the interval of a rate at a threshold."""

    def trials(self, rate: str) -> int:
        """Return the number of trials that a rate is a share of."""


class TaskTrials(ABC):
    """A task on whose trials a threshold is chosen, or judged. What it excludes is no trial.

    Parameters
    ----------
    task, rows, items : the task, its queries and its gallery, as `prepare` gives them
    options : distance, device and threads, as for evaluate
    """

    def __init__(
        self, task: TaskRules, rows: Array, items: Array | None, options: Mapping[str, Any]
    ) -> None:
        distance, threads = options["distance"], options["threads"]
        check_threads(threads)
        check_task(task, rows, items, given=catalogue.find(distance).given)
        self.task, self.rows, self.items, self.options = task, rows, items, options
        self._space = build(distance, rows, items, task.columns, threads=threads)

    @abstractmethod
    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """Return thresholds at which a rate is at most each target, or why there are none."""

    @abstractmethod
    def interval(self, rate: str, threshold: float) -> Ends | None:
        """Return the interval of a rate at a threshold, over classes."""

    @abstractmethod
    def trials(self, rate: str) -> int:
        """Return the number of trials that a rate is a share of."""

    @abstractmethod
    def judge(self, threshold: float) -> Judgement:
        """Return all that a threshold leads to."""

    def written(self, threshold: float) -> WrittenThreshold:
        """Return the threshold as a decimal that accepts the same pairs in any arithmetic."""
        return write(self.task, self._space, threshold, self.options)

    def evaluate(
        self,
        metrics: Iterable[str],
        *,
        task: TaskRules | None = None,
        confidence: float | None = None,
        gallery_sizes: Iterable[int] = (),
    ) -> Result:
        """Score the rows by metrics, under the rules of another task if one is passed."""
        return evaluate_task(
            self.task if task is None else task,
            self.rows,
            self.items,
            metrics=list(metrics),
            confidence=confidence,
            gallery_sizes=gallery_sizes,
            **self.options,
        )

    def _scored(
        self, metrics: Mapping[str, str]
    ) -> tuple[dict[str, float], dict[str, Ends | None], dict[str, Array]]:
        """Return values and intervals of the metrics that are defined, and values per query.

        Queries come in the classes of their labels; where judgements stand in the place of labels,
        intervals are those of evaluate, over queries.
        """
        labelled = self.task.levels is not None
        result = self.evaluate(metrics.values(), confidence=None if labelled else 0.95)
        values: dict[str, float] = {}
        intervals: dict[str, Ends | None] = {}
        each: dict[str, Array] = {}
        for key, name in metrics.items():
            score = result[name]
            if score.reason is not None:
                continue
            values[key] = score.value
            if score.per_query is not None:
                each[key] = np.asarray(score.per_query.lower)
            if not labelled:
                intervals[key] = score.interval
            elif key in each:
                intervals[key] = interval_of_mean(each[key], self.task.query_codes)
        return values, intervals, each


def kept_of(met: int, target: Decimal, nouns: str, *, times: int = 1) -> int | str:
    """Return how many must be accepted for an FRR, or why that cannot be resolved.

    `met` counts each trial so many `times`.
    """
    trials = -(-met // times)
    if trials == 0:
        return f"not defined: there are no {nouns}"
    if 0 < Fraction(target) * trials < 1:
        least = Context(prec=3, rounding=ROUND_CEILING).divide(Decimal(1), Decimal(trials))
        return (
            f"not defined: {trials:,} {nouns} cannot resolve an FRR of {float(target):g}; "
            f"the smallest that they can is {float(least):g}"
        )
    return met - floor(Fraction(target) * met)


def interval_of_mean(each: npt.ArrayLike, codes: npt.NDArray[np.int64]) -> Ends | None:
    """The interval of a mean over queries (NaN: does not count), None with too few classes."""
    values = np.asarray(each, np.float64)
    if len(np.unique(codes[~np.isnan(values)])) < FEWEST_CLASSES:
        return None
    return mean_interval(values, codes)


def found_threshold(trials: Rated, rate: str, target: Decimal) -> tuple[float, Ends | None]:
    """Return the threshold that meets a target, and its interval; refuse a target without one."""
    [threshold] = trials.thresholds(rate, [target])
    if isinstance(threshold, str):
        named = f"{'an' if rate == 'frr' else 'a'} {rate.upper()} of {float(target):g}"
        hint = ""
        if threshold == NO_IMPOSTORS:
            hint = ", and FAR is the share of unmated queries that accept an item; choose by frr"
        raise InputError(f"no threshold for {named}: {threshold}{hint}.")
    return threshold, _threshold_interval(trials, rate, threshold)


def _threshold_interval(trials: Rated, rate: str, threshold: float) -> tuple[float, float] | None:
    """The thresholds at both ends of the interval of the rate that the chosen one has.

    This is the set of thresholds whose rate cannot be told from the target with so many classes
    (Woodruff's interval of a quantile); it needs no assumption on how distances are distributed.
    """
    ends = trials.interval(rate, threshold)
    if ends is None:
        return None
    resolved = 1 / trials.trials(rate)
    first, last = trials.thresholds(
        rate, [Decimal(f"{end:.4g}") if end > 1.001 * resolved else Decimal(0) for end in ends]
    )
    if isinstance(first, str) or isinstance(last, str):  # nothing is nearer than an impostor
        return None
    return min(first, last), max(first, last)


# 1:1: every pair of rows that is compared is a trial, and a threshold accepts pairs.


TIMES = 2
"""Each pair is met from both of its rows, but for masks that exclude one order alone."""
ROWS = 1024
"""Rows whose excluded pairs are listed at a time."""


# The threshold as it is written into a program: a short decimal with room on both sides.


MARGIN = Fraction(1, 10**7)
"""What float64 code may err by; of thresholds above 1, this share of them."""
REACH = 10
"""Margins around the threshold in which pairs are looked for."""
MOST_DIGITS = 17


@dataclass(frozen=True)
class WrittenThreshold:
    """A decimal to compare distances with."""

    text: str
    within: int
    """Pairs that lie within the margin of it, which other arithmetic may decide differently."""


def write(
    task: TaskRules, space: Space, threshold: float, options: Mapping[str, Any]
) -> WrittenThreshold:
    """A decimal between the last accepted pair, at the threshold, and the first rejected one."""

    def around(low: Fraction, high: Fraction) -> Distances:
        ends = largest_float(space.raw(low)), largest_float(space.raw(high))
        collector = Collector([ends])
        device = resolve_device(options["device"])
        sweep(task.view, space, [collector], device=device, threads=options["threads"])
        return collector.distances(0, *ends)

    times = 2 if task.leave_one_out else 1  # every pair is seen from both of its rows
    return write_between(space, threshold, around, times)


def write_between(
    space: Space,
    threshold: float,
    around: Callable[[Fraction, Fraction], Distances],
    times: int = 1,
) -> WrittenThreshold:
    """A decimal between pairs, which `around` lists in ascending order between two thresholds in
    the user's unit, the nearer one first; each stands there so many times."""
    turn = -1 if catalogue.find(space.facts.distance).larger_is_nearer else 1
    last = turn * Fraction(threshold)
    margin = MARGIN * max(Fraction(1), abs(last))
    reach = REACH * margin
    pairs = turn * space.in_unit(around(turn * (last - reach), turn * (last + reach)))
    rejected = pairs[pairs > float(last)]
    first = Fraction(float(rejected[0])) if len(rejected) else last + reach
    if first - last >= 2 * margin:
        chosen = _shortest(last + margin, first - margin)
    else:
        chosen = _shortest(last, first)
    near = np.abs(pairs - float(chosen)) < float(margin)
    return WrittenThreshold(f"{turn * chosen:f}", -(-int(np.count_nonzero(near)) // times))


def _shortest(low: Fraction, high: Fraction) -> Decimal:
    """The number of fewest decimals from low to high, and of those the one nearest their middle."""
    middle = (low + high) / 2
    for digits in range(MOST_DIGITS):
        whole = round(middle * 10**digits)
        if low * 10**digits <= whole <= high * 10**digits:
            return Decimal(whole).scaleb(-digits)
    return Decimal(float(low))


class PairTrials(TaskTrials):
    """The pairs of a set of rows."""

    def __init__(
        self,
        task: TaskRules,
        rows: npt.NDArray[Any],
        items: npt.NDArray[Any] | None,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(task, rows, items, options)
        self._tables: dict[float, ClassTable] = {}

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """See Trials."""
        if rate == "far":
            names = [str(registry.parse(f"threshold@far={target:f}")) for target in targets]
            scores = self.evaluate(dict.fromkeys(names))
            return [scores[name].reason or scores[name].value for name in names]
        met = self._positives.ascending
        found: list[float | str] = []
        for target in targets:
            kept = kept_of(len(met), target, "pairs of one class", times=TIMES)
            if isinstance(kept, str):
                found.append(kept)
            else:
                found.append(float(self._space.in_unit(met[kept - 1 : kept])[0]))
        return found

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """See Trials."""
        if self.task.levels is None:
            return self.judge(threshold).intervals.get(rate)
        return _intervals(self._table(threshold))[rate]

    def trials(self, rate: str) -> int:
        """See Trials."""
        positives = len(self._positives)
        return -(-(positives if rate == "frr" else self._compared - positives) // TIMES)

    def judge(self, threshold: float) -> Judgement:
        """See Trials."""
        tau = as_decimal(self._space, threshold)
        metrics = {"far": f"fmr@tau={tau}", "frr": f"fnmr@tau={tau}", "dir": f"dir@tau={tau}",
                   "open_set_far": f"far@tau={tau}"}  # fmt: skip
        if self._space.unit_scale is not None:
            axis = on_axis(self._space, self._space.unit_scale, tau)
            metrics |= {"vp": f"mvp@tau={axis}", "rep": f"mrep@tau={axis}"}
        values, intervals, _ = self._scored(metrics)
        if self.task.levels is None:
            return Judgement(values, intervals, [])
        table = self._table(threshold)
        return Judgement(values, _intervals(table) | intervals, self._rates(table))

    @cached_property
    def _positives(self) -> Positives:
        return Positives.of(self.task.view, self._space)

    @cached_property
    def _compared(self) -> int:
        """The number of pairs of a query and an item that are not excluded."""
        task, excluded = self.task, 0
        for start in range(0, task.queries, ROWS):
            rows = np.arange(start, min(start + ROWS, task.queries))
            excluded += len(task.view.exclusions.pairs(rows, task.items))
        return task.queries * task.items - excluded

    def _table(self, threshold: float) -> ClassTable:
        """Counts of every class at a threshold, from a pass over all pairs."""
        if threshold not in self._tables:
            cut = largest_float(self._space.raw(Fraction(as_decimal(self._space, threshold))))
            tally = ClassTally(self.task, self._positives, np.array([cut]))
            device = resolve_device(self.options["device"])
            threads = self.options["threads"]
            sweep(self.task.view, self._space, [tally.tally], device=device, threads=threads)
            self._tables[threshold] = tally.table(without_positives=True)
        return self._tables[threshold]

    def _rates(self, table: ClassTable) -> list[ClassRates]:
        """The rates of every class with positives, the lowest utility first."""
        names = self.task.named_levels.finest.values
        paired = table.genuine > 0
        classes = table.classes[paired]
        positives, negatives = table.positives[paired, 0], table.negatives[paired, 0]
        frr, fmr, utility = pair_rates(
            positives, table.genuine[paired], negatives, table.impostors[paired]
        )
        return [
            ClassRates(names[classes[i]], float(frr[i]), float(fmr[i]), float(utility[i]))
            for i in np.lexsort((classes, utility))
        ]


def _intervals(table: ClassTable) -> dict[str, Ends | None]:
    """Intervals of the pairs' FMR and FRR over classes, by the names of the values."""
    paired = table.genuine > 0
    genuine = table.genuine[paired]
    missed = genuine - table.positives[paired, 0]
    fmr = frr = None
    if len(table.classes) >= FEWEST_CLASSES:
        fmr = rate_interval(table.negatives[:, 0], table.impostors, shared=True)
    if len(genuine) >= FEWEST_CLASSES:
        frr = rate_interval(missed, genuine, shared=False)
    return {"far": fmr, "frr": frr}


# An operating point: a threshold with all that it leads to, as text, CSV or JSON.


NAMES = {
    "far": "false accepts among pairs of two classes (FAR)",
    "frr": "false rejects among pairs of one class (FRR)",
    "dir": "relevant item found first and accepted (DIR, rank 1)",
    "open_set_far": "unmated queries that accept any item",
    "vp": "verification precision (VP)",
    "rep": "re-identification precision (ReP)",
}
SEARCH_NAMES = NAMES | {
    "far": "unmated queries that accept any item (FAR)",
    "frr": "relevant item not found first or not accepted (FRR)",
}
OF_JUDGEMENTS = {
    "far": "false accepts among irrelevant pairs (FAR)",
    "frr": "false rejects among relevant pairs (FRR)",
}
"""Names where there are judgements in the place of labels."""
OF_LISTS = {
    "far": "false accepts among negative trials (FAR)",
    "frr": "false rejects among positive trials (FRR)",
}
"""Names where the pairs are those of a list."""
FEWEST_DECIMALS, MOST_DECIMALS = 2, 6
"""Of rates in percent: one accepted pair in a hundred million is still seen."""
WORST = 5
"""Classes named as served worst."""


@dataclass(frozen=True)
class ClassRates:
    """One class at the threshold: shares of positives rejected and of negatives accepted.

    In a search a class has either: its queries have mates in the gallery, or they have none.
    """

    label: Any
    frr: float | None
    far: float | None
    """The false match rate of the class's pairs with other classes."""
    utility: float
    """Harmonic mean of 1 - FRR and 1 - FMR; in a search 1 minus the rate that there is."""


def pair_rates(
    positives: Integers, genuine: Integers, negatives: Integers, impostors: Integers
) -> tuple[Reals, Reals, Reals]:
    """FRR, FMR and utility of classes, from the accepted of all their positives and negatives."""
    frr = 1 - positives / genuine
    fmr = negatives / impostors
    both = (1 - frr) + (1 - fmr)
    product = 2 * (1 - frr) * (1 - fmr)
    return frr, fmr, np.divide(product, both, out=np.zeros_like(both), where=both > 0)


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold and its error rates."""

    threshold: float
    """The distance of the last accepted pair, in the distance's own unit."""
    threshold_interval: tuple[float, float] | None
    """Where the threshold for this target may lie, had other classes been there to choose it on."""
    target: float
    """The rate that was asked for."""
    values: dict[str, float]
    """far (the pairs' FMR), frr, and where they are defined dir, open_set_far, vp, rep."""
    intervals: dict[str, tuple[float, float] | None]
    """Interval of each value over the classes judged, at this very threshold; None where every
    class is at the same limit, or there are too few."""
    optimistic: bool
    """Whether the threshold was judged on the data that it was chosen on."""
    distance: str
    classes: list[ClassRates] = field(repr=False)
    """Every class that can be judged, served worst first; none where relevance was judged."""
    levels: tuple[str, ...] = ()
    """Names of the label levels from coarse to fine; the classes are those of the last."""
    rate: str = "far"
    """The rate that was asked for: far or frr."""
    search: bool = False
    """Whether queries search a gallery (1:N): far is then of queries without a mate, frr of
    queries whose mate is not both found first and accepted."""

    decimal: str = ""
    """The threshold to write into a program: a decimal between the last accepted and the first
    rejected distance, at which everything here is judged."""
    within: int = 0
    """Pairs of the set it was chosen on that lie within 1e-7 of it, for want of room."""
    excluded: tuple[str, ...] = ()
    """What is no pair in the set that it is judged on, in words."""
    listed: bool = False
    """Whether the pairs are those of a list of trials; intervals are then over people."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "threshold": self.threshold,
            "decimal": self.decimal,
            "within": self.within,
            "threshold_interval": (
                None if self.threshold_interval is None else list(self.threshold_interval)
            ),
            "target": self.target,
            "rate": self.rate,
            "search": self.search,
            "listed": self.listed,
            "values": dict(self.values),
            "intervals": {k: None if v is None else list(v) for k, v in self.intervals.items()},
            "optimistic": self.optimistic,
            "distance": self.distance,
            "levels": list(self.levels),
            "excluded": list(self.excluded),
            "classes": [vars(one) | {"label": str(one.label)} for one in self.classes],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank._util.files import to_json

        return to_json(self.to_dict(), path)

    def to_csv(self) -> str:
        """The rates of every class as comma-separated values, in fractions, served worst first."""
        rows = [(one.label, one.frr, one.far, one.utility) for one in self.classes]
        return text.separated(("class", "frr", "far", "utility"), rows)

    def spread(self) -> dict[str, dict[str, float]]:
        """Quantiles over classes of FRR and FMR: what one threshold for all of them costs."""
        levels = {"best": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
                  "worst": 1.0}  # fmt: skip
        table = {}
        for name in ("frr", "far"):
            rates = np.sort([x for one in self.classes if (x := getattr(one, name)) is not None])
            if len(rates):
                table[name] = {
                    level: float(rates[int(np.ceil(share * (len(rates) - 1)))])
                    for level, share in levels.items()
                }
        return table

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        rates = text.table(self._value_table())
        lines = text.paragraphs(self._rule()), text.paragraphs(self._notes())
        return text.block(lines[0], rates, lines[1])

    def to_text(self, *, by_class: bool = False, rule: bool = False) -> str:
        """Sentences and tables as wide as the screen; `by_class` adds what every class gets."""
        parts = [
            "\n".join(text.fill(self._rule(), text.prose_width())),
            tables.laid_out(self._value_table(), self._notes(), rule=rule),
        ]
        if by_class and self.classes:
            parts.append(tables.laid_out(self._spread_table(), self._above(), rule=rule))
            parts.append(tables.laid_out(self._class_table(), rule=rule))
        return "\n\n".join(parts)

    def _rule(self) -> list[str]:
        """What to accept, and how certain that limit is."""
        near = f"{self.distance} distance is at most"
        if catalogue.find(self.distance).larger_is_nearer:
            near = f"{self.distance} is at least"
        what = "the nearest item" if self.search else "a pair"
        lines = [
            f"Accept {what} if its {near} {self.decimal} (chosen for "
            f"{'an' if self.rate == 'frr' else 'a'} {self.rate.upper()} of {self.target:g})."
        ]
        if self.within:
            lines.append(
                f"{self.within:,} pairs lie within 1e-7 of that: another program may decide them "
                "differently."
            )
        if self.threshold_interval is not None:
            low, high = self.threshold_interval
            lines.append(
                f"95 % interval of the threshold, over {self._units}: {low:.6g} to {high:.6g}."
            )
        return lines

    @property
    def _units(self) -> str:
        """What intervals are over."""
        return "people" if self.listed else "classes" if self.levels else "queries"

    def _value_table(self) -> TextTable:
        names = SEARCH_NAMES if self.search else NAMES if self.levels else NAMES | OF_JUDGEMENTS
        names = names | OF_LISTS if self.listed else names
        rows = []
        for name, value in self.values.items():
            ends = self.intervals.get(name)
            places = _decimals(value if ends is None else ends[1] - ends[0])
            shown = tables.ends(ends, lambda end: _percent(end, places))  # noqa: B023
            rows.append([names[name], _percent(value, places), shown])
        return TextTable(["at this threshold", "percent", "95 % interval"], rows)

    def _notes(self) -> list[str]:
        lines = []
        if any(self.intervals.values()):
            lines.append(f"Intervals are over {self._units}, at this very threshold.")
        if len(self.levels) > 1:
            lines.append(
                f"Of {len(self.levels)} label levels only the finest (level {self.levels[-1]}) "
                "counts here."
            )
        if self.optimistic:
            lines.append(
                "Chosen and judged on the same data: this is optimistic. Evaluate it on other "
                "data (--apply)."
            )
        if self.excluded:
            lines.append(f"Never a pair: {', '.join(map(text.reworded, self.excluded))}.")
        if self.classes:
            worst = ", ".join(_served(one) for one in self.classes[:WORST])
            lines.append(f"Worst of {len(self.classes):,} classes: {worst}.")
        return lines

    def _spread_table(self) -> TextTable:
        spread = self.spread()
        levels = list(next(iter(spread.values()), {}))
        rows = []
        for name, rates in spread.items():
            places = _decimals(*rates.values())
            rows.append([name.upper(), *(_percent(rates[level], places) for level in levels)])
        return TextTable(["over classes", *levels], rows)

    def _above(self) -> list[str]:
        rates = [x for one in self.classes if (x := getattr(one, self.rate)) is not None]
        above = sum(x > self.target for x in rates)
        return [
            f"{above:,} of {len(rates):,} classes have a {self.rate.upper()} above the target of "
            f"{100 * self.target:g} %."
        ]

    def _class_table(self) -> TextTable:
        frr, far = (
            _decimals(*(x for one in self.classes if (x := getattr(one, rate)) is not None))
            for rate in ("frr", "far")
        )
        rows = [
            [str(one.label), _percent(one.frr, frr), _percent(one.far, far)] for one in self.classes
        ]
        return TextTable(["class", "FRR", "FAR"], rows)


def _served(one: ClassRates) -> str:
    rates = []
    if one.frr is not None:
        rates.append(f"FRR {100 * one.frr:.1f} %")
    if one.far is not None:
        rates.append(f"FAR {100 * one.far:.2g} %")
    return f"{one.label} ({', '.join(rates)})"


def _percent(rate: float | None, places: int) -> str:
    return tables.MISSING if rate is None else f"{100 * rate:.{places}f}"


def _decimals(*rates: float) -> int:
    """Decimals of percent that show two digits of the smallest rate, or width, above zero."""
    least = min((rate for rate in rates if rate > 0), default=1.0)
    return min(max(FEWEST_DECIMALS, 1 - math.floor(math.log10(100 * least))), MOST_DECIMALS)


# 1:N: every query searches a gallery, and a threshold accepts the item that it finds first.


class OpenSetSearches(TaskTrials):
    """Mated and unmated queries of a gallery."""

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """See Trials."""
        if rate == "frr":
            found = self._found_first()
            return [self._at_frr(target, found) for target in targets]
        names = [str(registry.parse(f"dir@far={target:f}")) for target in targets]
        scores = self.evaluate(dict.fromkeys(names))
        return [scores[name].reason or _or_nothing(scores[name].threshold) for name in names]

    def _at_frr(self, target: Decimal, found: Reals) -> float | str:
        kept = kept_of(self.trials("frr"), target, "mated queries")
        if isinstance(kept, str):
            return kept
        if len(found) < kept:
            least = 1 - len(found) / self.trials("frr")
            return f"too few queries find a relevant item first; the FRR is at least {least:.4g}"
        return float(self._space.in_unit(found[kept - 1 : kept])[0])

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """See Trials."""
        return self.judge(threshold).intervals.get(rate)

    def trials(self, rate: str) -> int:
        """See Trials."""
        with_mate = int((self.task.view.mates > 0).sum())
        return with_mate if rate == "frr" else self.task.queries - with_mate

    def judge(self, threshold: float) -> Judgement:
        """See Trials."""
        tau = as_decimal(self._space, threshold)
        metrics = {"far": f"far@tau={tau}", "frr": f"dir@tau={tau}"}
        if self._space.unit_scale is not None:
            axis = on_axis(self._space, self._space.unit_scale, tau)
            metrics |= {"vp": f"mvp@tau={axis}", "rep": f"mrep@tau={axis}"}
        values, intervals, each = self._scored(metrics)
        if "frr" in values:
            values["frr"], each["frr"] = 1 - values["frr"], 1 - each["frr"]
            ends = intervals["frr"]
            if self.task.levels is not None:
                intervals["frr"] = interval_of_mean(each["frr"], self.task.query_codes)
            elif ends is not None:
                intervals["frr"] = 1 - ends[1], 1 - ends[0]
        rates = [] if self.task.levels is None else self._rates(each)
        return Judgement(values, intervals, rates)

    def _found_first(self) -> Reals:
        """Distances, in ascending order, of the mates that are found first."""
        score = self.evaluate(["hit@1"])["hit@1"]
        hits = np.full(self.task.queries, np.nan)
        if score.per_query is not None:
            hits = np.asarray(score.per_query.lower)
        positives = Positives.of(self.task.view, self._space)
        nearest = np.full(self.task.queries, np.inf)
        np.minimum.at(nearest, positives.query, positives.distance)
        return np.sort(nearest[hits == 1])

    def _rates(self, each: dict[str, Reals]) -> list[ClassRates]:
        """The rates of every class, the lowest utility first."""
        names, codes = self.task.named_levels.finest.values, self.task.query_codes
        rates: dict[str, list[float | None]] = {}
        for key in ("frr", "far"):
            values = each.get(key, np.full(len(codes), np.nan))
            held = ~np.isnan(values)
            sums = np.bincount(codes[held], values[held], minlength=len(names))
            counts = np.bincount(codes[held], minlength=len(names))
            rates[key] = [
                float(total / number) if number else None
                for total, number in zip(sums, counts, strict=True)
            ]
        found = []
        for code in np.unique(codes).tolist():
            frr, far = rates["frr"][code], rates["far"][code]
            worst = max((rate for rate in (frr, far) if rate is not None), default=0.0)
            found.append(ClassRates(names[code], frr, far, 1 - worst))
        return sorted(found, key=lambda one: one.utility)


def _or_nothing(threshold: float | None) -> float | str:
    return "nothing is nearer than the first false accept" if threshold is None else threshold
