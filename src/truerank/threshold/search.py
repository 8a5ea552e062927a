"""1:N: every query searches a gallery, and a threshold accepts the item that it finds first."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.families.family import Positives
from truerank.threshold.decimals import as_decimal, on_axis
from truerank.threshold.judged import Ends, Judgement, Trials, interval_of_mean, kept_of
from truerank.threshold.point import ClassRates

__all__ = ["Searches"]

Reals = npt.NDArray[np.float64]


class Searches(Trials):
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
        kept = kept_of(self.trials("frr"), target, "queries with a mate")
        if isinstance(kept, str):
            return kept
        if len(found) < kept:
            least = 1 - len(found) / self.trials("frr")
            return f"too few queries find their mate first; the FRR is at least {least:.4g}"
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
