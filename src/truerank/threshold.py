"""choose_threshold: one threshold for a FAR target, and everything a deployer needs at it.

The threshold is chosen on one set and judged on another; judged where it was chosen, it looks
better than it is, and the operating point says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from truerank.arrays import as_matrix
from truerank.engine import resolve_device, sweep
from truerank.engine.cuts import largest_float
from truerank.errors import InputError
from truerank.evaluation import evaluate
from truerank.evidence.classes import ClassTable, ClassTally
from truerank.evidence.positives import Positives
from truerank.metrics import registry
from truerank.space import DISTANCES, Space, build
from truerank.stats.operating import rate_interval
from truerank.task import Task

__all__ = ["ClassRates", "OperatingPoint", "choose_threshold"]


@dataclass(frozen=True)
class ClassRates:
    """One class at the threshold: its share of positives missed and of negatives let in."""

    label: Any
    frr: float
    far: float
    utility: float
    """Harmonic mean of 1 - FRR and 1 - FAR."""


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold with what it leads to."""

    threshold: float
    """In the distance's own unit; a pair is accepted if its distance is at most this."""
    target: float
    """The FAR that was asked for."""
    values: dict[str, float]
    """far, frr, and where they are defined dir, open_set_far, vp, rep."""
    intervals: dict[str, tuple[float, float] | None]
    """Of far and frr over test classes, the threshold being what it is."""
    optimistic: bool
    """Whether it was judged on the data that it was chosen on."""
    distance: str
    classes: list[ClassRates] = field(repr=False)
    """Every class that can be judged, served worst first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "threshold": self.threshold,
            "target": self.target,
            "values": dict(self.values),
            "intervals": {k: None if v is None else list(v) for k, v in self.intervals.items()},
            "optimistic": self.optimistic,
            "distance": self.distance,
            "classes": [vars(one) | {"label": str(one.label)} for one in self.classes],
        }

    def spread(self) -> dict[str, dict[str, float]]:
        """What one threshold costs: quantiles over classes of FRR and FAR."""
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
        lines = [
            f"Accept a pair if its {self.distance} distance is at most {self.threshold:.6g} "
            f"(chosen for a FAR of {self.target:g})."
        ]
        if self.distance == "similarity":
            lines[0] = (
                f"Accept a pair if its similarity is at least {self.threshold:.6g} "
                f"(chosen for a FAR of {self.target:g})."
            )
        for name, value in self.values.items():
            interval = self.intervals.get(name)
            more = (
                ""
                if interval is None
                else f"  [{100 * interval[0]:.4g} to {100 * interval[1]:.4g}]"
            )
            lines.append(f"  {100 * value:9.4f} %{more}  {names[name]}")
        if any(self.intervals.values()):
            lines.append("Intervals: 95 %, over the classes judged, at this threshold.")
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
    """A threshold for a FAR target, chosen on one set and judged on another.

    Parameters
    ----------
    embeddings, labels : (N, d), (N,)
        The set on which the threshold is chosen; all of its pairs count.
    far : float or decimal text
        The share of pairs of two classes that may be accepted.
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
    if distance not in DISTANCES:
        raise InputError(
            f"The 'distance' parameter must be one of {', '.join(DISTANCES)}. Got {distance!r}."
        )
    if (apply is None) != (apply_labels is None):
        raise InputError("apply and apply_labels go together; pass both or neither.")
    options = {"distance": distance, "device": device, "threads": threads}
    name = str(registry.parse(f"threshold@far={far}"))
    chosen = evaluate(embeddings, labels, metrics=[name], **options)[name]  # type: ignore[arg-type]
    if chosen.reason is not None:
        raise InputError(f"no threshold for a FAR of {far}: {chosen.reason}.")
    judged = (embeddings, labels) if apply is None else (apply, apply_labels)
    return _judge(
        chosen.value, registry.parse(name).option("far") or "", judged, apply is None, options
    )


def _judge(
    threshold: float, target: str, judged: tuple[Any, Any], same: bool, options: Mapping[str, Any]
) -> OperatingPoint:
    rows, labels = judged
    rows = as_matrix(rows, "embeddings")
    task = Task(labels)
    space = build(options["distance"], rows)
    tau = _decimal(space, threshold)
    metrics = {"far": f"fmr@tau={tau}", "frr": f"fnmr@tau={tau}", "dir": f"dir@tau={tau}",
               "open_set_far": f"far@tau={tau}"}  # fmt: skip
    if space.unit_scale is not None:
        on_axis = _on_axis(space, tau)
        metrics |= {"vp": f"mvp@tau={on_axis}", "rep": f"mrep@tau={on_axis}"}
    result = evaluate(rows, labels, metrics=list(metrics.values()), **options)
    values = {key: result[name] for key, name in metrics.items()}
    table = _classes(task, space, tau, options)
    if not len(table.classes):
        raise InputError("no class has two rows: there is nothing to judge a threshold by.")
    return OperatingPoint(
        threshold,
        float(target),
        {key: score.value for key, score in values.items() if score.reason is None},
        {} if same else _intervals(table),
        same,
        options["distance"],
        _rates(task, table),
    )


def _decimal(space: Space, threshold: float) -> str:
    """Decimal text that accepts this observed distance: up to the next 10^-18."""
    step = Decimal(1).scaleb(-18)
    if space.facts.distance == "similarity":
        return str(registry.parse(f"far@tau={Decimal(threshold):f}").option("tau"))
    if space.facts.distance == "euclidean":  # the root was rounded
        threshold = float(np.nextafter(threshold, np.inf))
    text = f"{Decimal(threshold).quantize(step, ROUND_CEILING):f}"
    return registry.parse(f"far@tau={text}").option("tau") or "0"


def _on_axis(space: Space, tau: str) -> str:
    """The same threshold on the axis of GOM."""
    assert space.unit_scale is not None
    exact = Fraction(space.raw(Fraction(tau))) * Fraction(space.unit_scale)
    step = Decimal(1).scaleb(-18)
    text = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(step, ROUND_CEILING)
    return registry.parse(f"mvp@tau={min(text, Decimal(1)):f}").option("tau") or "0"


def _classes(task: Task, space: Space, tau: str, options: Mapping[str, Any]) -> ClassTable:
    cut = largest_float(space.raw(Fraction(tau)))
    tally = ClassTally(task, Positives.of(task.view, space), np.array([cut]))
    device = resolve_device(options["device"])
    sweep(task.view, space, tally.watchers, device=device, threads=options["threads"])
    return tally.table()


def _rates(task: Task, table: ClassTable) -> list[ClassRates]:
    assert task.levels is not None
    names = task.levels.finest.values
    frr = 1 - table.positives[:, 0] / table.genuine
    far = table.negatives[:, 0] / table.impostors
    both = (1 - frr) + (1 - far)
    utility = np.divide(2 * (1 - frr) * (1 - far), both, out=np.zeros_like(both), where=both > 0)
    return [
        ClassRates(names[table.classes[i]], float(frr[i]), float(far[i]), float(utility[i]))
        for i in np.lexsort((table.classes, utility))
    ]


def _intervals(table: ClassTable) -> dict[str, tuple[float, float] | None]:
    missed = table.genuine - table.positives[:, 0]
    return {
        "far": rate_interval(table.negatives[:, 0], table.impostors, shared=True),
        "frr": rate_interval(missed, table.genuine, shared=False),
    }
