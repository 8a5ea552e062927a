"""choose_threshold: one threshold for a false match rate, and all that a deployer needs at it.

The threshold is chosen on one set and judged on another; judged where it was chosen, it looks
better than it is, and the operating point says so. All rates here are of pairs: what users know as
`far` is the false match rate (FMR), the share of pairs of two classes that are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from truerank.arrays import as_matrix
from truerank.core import registry
from truerank.core.folds import FEWEST_CLASSES
from truerank.engine import resolve_device, sweep
from truerank.engine.cuts import largest_float
from truerank.errors import InputError
from truerank.evaluation import evaluate
from truerank.families.family import Positives
from truerank.families.opis.classes import ClassTable, ClassTally
from truerank.space import Space, build, catalogue
from truerank.stats.operating import mean_interval, rate_interval
from truerank.task import TaskRules

__all__ = ["ClassRates", "OperatingPoint", "choose_threshold"]


@dataclass(frozen=True)
class ClassRates:
    """One class at the threshold: its share of positives missed and of negatives let in."""

    label: Any
    frr: float
    far: float
    """The false match rate of the class's pairs with other classes."""
    utility: float
    """Harmonic mean of 1 - FRR and 1 - FMR."""


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold with what it leads to."""

    threshold: float
    """The threshold in the distance's own unit: pairs are accepted up to this distance."""
    threshold_interval: tuple[float, float] | None
    """Where the threshold for this FMR may lie, had other classes been there to choose it on."""
    target: float
    """The FMR that was asked for."""
    values: dict[str, float]
    """far (the pairs' FMR), frr, and where they are defined dir, open_set_far, vp, rep."""
    intervals: dict[str, tuple[float, float] | None]
    """Interval of each value over the classes judged, at this very threshold; None where every
    class is at the same limit, or there are too few."""
    optimistic: bool
    """Whether the threshold was judged on the data that it was chosen on."""
    distance: str
    classes: list[ClassRates] = field(repr=False)
    """Every class that can be judged, served worst first."""
    levels: tuple[str, ...] = ()
    """Names of the label levels from coarse to fine; the classes are those of the last."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "threshold": self.threshold,
            "threshold_interval": (
                None if self.threshold_interval is None else list(self.threshold_interval)
            ),
            "target": self.target,
            "values": dict(self.values),
            "intervals": {k: None if v is None else list(v) for k, v in self.intervals.items()},
            "optimistic": self.optimistic,
            "distance": self.distance,
            "levels": list(self.levels),
            "classes": [vars(one) | {"label": str(one.label)} for one in self.classes],
        }

    def spread(self) -> dict[str, dict[str, float]]:
        """Quantiles over classes of FRR and FMR: what one threshold for all of them costs."""
        levels = {"best": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
                  "worst": 1.0}  # fmt: skip
        table = {}
        for name in ("frr", "far"):
            rates = np.sort([getattr(one, name) for one in self.classes])
            table[name] = {
                level: float(rates[int(np.ceil(share * (len(rates) - 1)))])
                for level, share in levels.items()
            }
        return table

    def __str__(self) -> str:
        names = {
            "far": "false accepts among pairs of two classes (FAR)",
            "frr": "false rejects among pairs of one class (FRR)",
            "dir": "queries with a mate found first and accepted (DIR, rank 1)",
            "open_set_far": "queries without a mate that accept something",
            "vp": "verification precision (VP)",
            "rep": "re-identification precision (ReP)",
        }
        rule = f"{self.distance} distance is at most"
        if catalogue.find(self.distance).larger_is_nearer:
            rule = f"{self.distance} is at least"
        lines = [
            f"Accept a pair if its {rule} {self.threshold:.6g} (chosen for a FAR of "
            f"{self.target:g})."
        ]
        if self.threshold_interval is not None:
            low, high = self.threshold_interval
            lines.append(f"Other classes to choose it on might have given {low:.6g} to {high:.6g}.")
        for name, value in self.values.items():
            interval = self.intervals.get(name)
            more = (
                ""
                if interval is None
                else f"  [{100 * interval[0]:.4g} to {100 * interval[1]:.4g}]"
            )
            lines.append(f"  {100 * value:9.4f} %{more}  {names[name]}")
        if any(self.intervals.values()):
            lines.append("Intervals: 95 %, over classes; of rates, at this threshold.")
        if len(self.levels) > 1:
            lines.append(
                f"Of {len(self.levels)} label levels only the finest (level {self.levels[-1]}) "
                "counts here."
            )
        if self.optimistic:
            lines.append(
                "Chosen and judged on the same data: this is optimistic. Judge it on data it has "
                "not seen (--apply)."
            )
        worst = ", ".join(
            f"{one.label} (FRR {100 * one.frr:.1f} %, FAR {100 * one.far:.2g} %)"
            for one in self.classes[:5]
        )
        lines.append(f"Served worst, of {len(self.classes):,} classes: {worst}.")
        return "\n".join(lines)


def choose_threshold(
    embeddings: Any,
    labels: Any,
    *,
    far: float | str,
    apply: Any = None,
    apply_labels: Any = None,
    distance: str = "cosine",
    device: str = "auto",
    threads: int | None = None,
) -> OperatingPoint:
    """A threshold for a false match rate, chosen on one set and judged on another.

    Parameters
    ----------
    embeddings, labels : (N, d), (N,) or (N, L)
        The set on which the threshold is chosen; all of its pairs count. Of several levels of
        labels only the finest counts.
    far : float or decimal text
        The pairs' false match rate (FMR): the share of pairs of two classes that may be accepted.
    apply, apply_labels : optional
        The set on which it is judged; without them the same one, which is optimistic.
    distance, device, threads
        As in evaluate.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(20), 5)
    >>> x = rng.normal(size=(20, 8))[y] + 0.5 * rng.normal(size=(100, 8))
    >>> seen, unseen = {"embeddings": x[:50], "labels": y[:50]}, (x[50:], y[50:])
    >>> point = truerank.choose_threshold(
    ...     **seen, far=0.01, apply=unseen[0], apply_labels=unseen[1]
    ... )
    >>> point.optimistic, round(point.threshold, 3), round(point.values["frr"], 3)
    (False, 0.232, 0.22)
    """
    known = catalogue.names()
    if distance not in known:
        raise InputError(
            f"The 'distance' parameter must be one of {', '.join(known)}. Got {distance!r}."
        )
    if (apply is None) != (apply_labels is None):
        raise InputError("apply and apply_labels go together; pass both or neither.")
    options = {"distance": distance, "device": device, "threads": threads, "confidence": None}
    metric = registry.parse(f"threshold@far={far}")
    seen = as_matrix(embeddings, "embeddings")
    threshold = _at_fmr(seen, labels, [str(metric)], options)[0]
    if isinstance(threshold, str):
        raise InputError(f"no threshold for a FAR of {far}: {threshold}.")
    task, space = TaskRules(labels), build(distance, seen)
    table = _classes(task, space, _decimal(space, threshold), options)
    found = _threshold_interval(seen, labels, table, options)
    same = apply is None
    if apply is not None:
        chosen_on, labels = seen, apply_labels
        seen, task = as_matrix(apply, "apply"), TaskRules(labels)
        if len(seen) != task.queries:
            raise InputError(
                f"apply has {len(seen)} rows but there are {task.queries} labels in apply_labels; "
                "pass one label for each row."
            )
        same = np.array_equal(seen, chosen_on)
        space = build(distance, seen)
        table = _classes(task, space, _decimal(space, threshold), options)
    if not table.genuine.any():
        raise InputError("no class has two rows: there is nothing to judge a threshold by.")
    values, intervals = _judge(threshold, seen, labels, task, space, options)
    return OperatingPoint(
        threshold,
        found,
        float(metric["far"]),
        values,
        _intervals(table) | intervals,
        same,
        distance,
        _rates(task, table),
        () if task.levels is None else tuple(task.levels.names),
    )


def _at_fmr(
    rows: Any, labels: Any, names: list[str], options: Mapping[str, Any]
) -> list[float | str]:
    """Thresholds of FMR targets, by their metric strings, or why there are none."""
    scores = evaluate(rows, labels, metrics=names, **options)
    return [scores[name].reason or scores[name].value for name in names]


def _threshold_interval(
    rows: Any, labels: Any, table: ClassTable, options: Mapping[str, Any]
) -> tuple[float, float] | None:
    """The thresholds at both ends of the interval of the FMR that the chosen one has.

    This is the set of thresholds whose FMR cannot be told from the target with so many classes
    (Woodruff's interval of a quantile); it needs no assumption on how distances are distributed.
    """
    ends = _intervals(table)["far"]
    if ends is None:
        return None
    resolved = 2 / int(table.impostors.sum())  # every pair of two classes counts for both
    names = []
    for end in ends:
        rate = Decimal(f"{end:.4g}") if end > 1.001 * resolved else Decimal(0)
        names.append(str(registry.parse(f"threshold@far={rate:f}")))
    found = _at_fmr(rows, labels, names, options)
    first, last = found[0], found[-1]
    if isinstance(first, str) or isinstance(last, str):  # nothing is nearer than an impostor
        return None
    return min(first, last), max(first, last)


def _judge(
    threshold: float,
    rows: Any,
    labels: Any,
    task: TaskRules,
    space: Space,
    options: Mapping[str, Any],
) -> tuple[dict[str, float], dict[str, tuple[float, float] | None]]:
    """The rates at a threshold, and intervals of those that are means over queries."""
    tau = _decimal(space, threshold)
    metrics = {"far": f"fmr@tau={tau}", "frr": f"fnmr@tau={tau}", "dir": f"dir@tau={tau}",
               "open_set_far": f"far@tau={tau}"}  # fmt: skip
    if space.unit_scale is not None:
        on_axis = _on_axis(space, space.unit_scale, tau)
        metrics |= {"vp": f"mvp@tau={on_axis}", "rep": f"mrep@tau={on_axis}"}
    result = evaluate(rows, labels, metrics=list(metrics.values()), **options)
    values, intervals = {}, {}
    for key, name in metrics.items():
        score = result[name]
        if score.reason is not None:
            continue
        values[key] = score.value
        if score.per_query is not None:
            each = np.asarray(score.per_query.lower)
            enough = len(np.unique(task.query_codes[~np.isnan(each)])) >= FEWEST_CLASSES
            intervals[key] = mean_interval(each, task.query_codes) if enough else None
    return values, intervals


def _decimal(space: Space, threshold: float) -> str:
    """A threshold as decimal text that accepts it: up to the next 10^-18, or 27th digit."""
    if space.unit_rounds:
        threshold = float(np.nextafter(threshold, np.inf))
    exact = Decimal(threshold)
    step = Decimal(1).scaleb(-min(18, 26 - exact.adjusted()))
    similar = catalogue.find(space.facts.distance).larger_is_nearer
    outward = ROUND_FLOOR if similar else ROUND_CEILING
    text = f"{exact.quantize(step, outward):f}"
    return registry.parse(f"far@tau={text}").text("tau")


def _on_axis(space: Space, scale: float, tau: str) -> str:
    """A threshold on the axis of GOM, as decimal text."""
    exact = Fraction(space.raw(Fraction(tau))) * Fraction(scale)
    step = Decimal(1).scaleb(-18)
    text = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(step, ROUND_CEILING)
    return registry.parse(f"mvp@tau={min(text, Decimal(1)):f}").text("tau")


def _classes(task: TaskRules, space: Space, tau: str, options: Mapping[str, Any]) -> ClassTable:
    """Counts of every class at a threshold, from a pass over all pairs."""
    cut = largest_float(space.raw(Fraction(tau)))
    tally = ClassTally(task, Positives.of(task.view, space), np.array([cut]))
    device = resolve_device(options["device"])
    sweep(task.view, space, [tally.tally], device=device, threads=options["threads"])
    return tally.table(without_positives=True)


def _rates(task: TaskRules, table: ClassTable) -> list[ClassRates]:
    """The rates of every class with positives, the lowest utility first."""
    names = task.named_levels.finest.values
    paired = table.genuine > 0
    classes = table.classes[paired]
    frr = 1 - table.positives[paired, 0] / table.genuine[paired]
    fmr = table.negatives[paired, 0] / table.impostors[paired]
    both = (1 - frr) + (1 - fmr)
    utility = np.divide(2 * (1 - frr) * (1 - fmr), both, out=np.zeros_like(both), where=both > 0)
    return [
        ClassRates(names[classes[i]], float(frr[i]), float(fmr[i]), float(utility[i]))
        for i in np.lexsort((classes, utility))
    ]


def _intervals(table: ClassTable) -> dict[str, tuple[float, float] | None]:
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
