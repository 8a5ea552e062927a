"""1:1: every pair of rows that is compared is a trial, and a threshold accepts pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core import registry
from truerank.core.folds import FEWEST_CLASSES
from truerank.engine import resolve_device, sweep
from truerank.engine.cuts import largest_float
from truerank.families.family import Positives
from truerank.families.opis.classes import ClassTable, ClassTally
from truerank.stats.operating import rate_interval
from truerank.task import TaskRules
from truerank.threshold.decimals import as_decimal, on_axis
from truerank.threshold.judged import Ends, Judgement, Trials, kept_of
from truerank.threshold.point import ClassRates, pair_rates

__all__ = ["PairTrials"]

TIMES = 2
"""Each pair is met from both of its rows, but for masks that exclude one order alone."""
ROWS = 1024
"""Rows whose excluded pairs are listed at a time."""


class PairTrials(Trials):
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
