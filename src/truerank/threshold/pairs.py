"""1:1: every pair of a labelled set is a trial, and a threshold accepts pairs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from truerank.core import registry
from truerank.core.folds import FEWEST_CLASSES
from truerank.engine import resolve_device, sweep
from truerank.engine.cuts import largest_float
from truerank.evaluation import evaluate
from truerank.families.family import Positives
from truerank.families.opis.classes import ClassTable, ClassTally
from truerank.space import build
from truerank.stats.operating import rate_interval
from truerank.task import TaskRules
from truerank.threshold.decimals import as_decimal, on_axis
from truerank.threshold.judged import Ends, Judgement, interval_of_mean, kept_of
from truerank.threshold.point import ClassRates, pair_rates
from truerank.threshold.written import WrittenThreshold, write

__all__ = ["PairTrials"]


class PairTrials:
    """All pairs of a set of rows."""

    def __init__(self, rows: Any, labels: Any, options: dict[str, Any]) -> None:
        self._rows, self._labels, self._options = rows, labels, options
        self.task = TaskRules(labels)
        self._space = build(options["distance"], rows)
        self._tables: dict[float, ClassTable] = {}

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """See Trials."""
        if rate == "far":
            names = [str(registry.parse(f"threshold@far={target:f}")) for target in targets]
            scores = self._evaluate(list(dict.fromkeys(names)))
            return [scores[name].reason or scores[name].value for name in names]
        met = self._positives().ascending[::2]  # every pair stands there twice
        found: list[float | str] = []
        for target in targets:
            kept = kept_of(len(met), target, "pairs of one class")
            if isinstance(kept, str):
                found.append(kept)
            else:
                found.append(float(self._space.in_unit(met[kept - 1 : kept])[0]))
        return found

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """See Trials."""
        return _intervals(self._table(threshold))[rate]

    def trials(self, rate: str) -> int:
        """See Trials."""
        if rate == "frr":
            return len(self._positives()) // 2
        rows, mates = self.task.queries, int(self.task.view.mates.sum())
        return (rows * (rows - 1) - mates) // 2

    def written(self, threshold: float) -> WrittenThreshold:
        """See Trials."""
        return write(self.task, self._space, threshold, self._options)

    def judge(self, threshold: float) -> Judgement:
        """See Trials."""
        tau = as_decimal(self._space, threshold)
        metrics = {"far": f"fmr@tau={tau}", "frr": f"fnmr@tau={tau}", "dir": f"dir@tau={tau}",
                   "open_set_far": f"far@tau={tau}"}  # fmt: skip
        if self._space.unit_scale is not None:
            axis = on_axis(self._space, self._space.unit_scale, tau)
            metrics |= {"vp": f"mvp@tau={axis}", "rep": f"mrep@tau={axis}"}
        result = self._evaluate(list(metrics.values()))
        table = self._table(threshold)
        values: dict[str, float] = {}
        intervals = _intervals(table)
        for key, name in metrics.items():
            score = result[name]
            if score.reason is not None:
                continue
            values[key] = score.value
            if score.per_query is not None:
                intervals[key] = interval_of_mean(score.per_query.lower, self.task.query_codes)
        return Judgement(values, intervals, self._rates(table))

    def _evaluate(self, metrics: list[str]) -> Any:
        return evaluate(self._rows, self._labels, metrics=metrics, confidence=None, **self._options)

    def _positives(self) -> Positives:
        return Positives.of(self.task.view, self._space)

    def _table(self, threshold: float) -> ClassTable:
        """Counts of every class at a threshold, from a pass over all pairs."""
        if threshold not in self._tables:
            cut = largest_float(self._space.raw(Fraction(as_decimal(self._space, threshold))))
            tally = ClassTally(self.task, self._positives(), np.array([cut]))
            device = resolve_device(self._options["device"])
            threads = self._options["threads"]
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
