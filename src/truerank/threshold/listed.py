"""A threshold on a list of trials: chosen on its pairs, judged on them or on another list's."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from truerank.core import registry
from truerank.engine.cuts import largest_float
from truerank.errors import InputError
from truerank.result import Result
from truerank.space import Distances
from truerank.stats.intervals import IntervalRequest
from truerank.threshold.decimals import as_decimal
from truerank.threshold.judged import Ends, Judgement, found_threshold, kept_of
from truerank.threshold.point import OperatingPoint
from truerank.threshold.written import WrittenThreshold, write_between
from truerank.verification import Listed, place_listed, read_listed, score_listed

__all__ = ["ListedTrials", "choose_on_list"]

REQUEST = IntervalRequest(0.95, 0)


class ListedTrials:
    """The trials of a list. Intervals of their rates are over people, where they are known."""

    def __init__(
        self,
        values: Any,
        pairs: Any = None,
        *,
        ids: Any = None,
        labels: Any = None,
        distance: str | None = None,
        layout: str = "auto",
    ) -> None:
        """Scores or embeddings, and trials, as verify takes them."""
        values, trials = read_listed(values, pairs, layout)
        self._listed: Listed = place_listed(values, trials, ids, labels, distance)
        self._space, same = self._listed.space, trials.same
        if same.all() or not same.any():
            kind = "positive" if same.all() else "negative"
            raise InputError(
                f"a threshold needs positive and negative trials; the list has {kind} ones alone."
            )
        self.distance = self._space.facts.distance
        self._positives = np.sort(self._listed.distances[same])

    def __eq__(self, other: object) -> bool:
        """Whether these are the same distances of the same trials."""
        return isinstance(other, ListedTrials) and all(
            np.array_equal(getattr(mine, name), getattr(its, name))
            for mine, its, name in (
                (self._listed, other._listed, "distances"),
                (self._listed.trials, other._listed.trials, "same"),
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """Return thresholds at which a rate is at most each target, or why there are none."""
        if rate == "far":
            names = [f"threshold@far={target:f}" for target in targets]
            scores = [self._scored([name], None) for name in names]
            return [s.reason or s.value for one in scores for s in one.values()]
        found: list[float | str] = []
        for target in targets:
            kept = kept_of(len(self._positives), target, "positive trials")
            if isinstance(kept, str):
                found.append(kept)
            else:
                found.append(float(self._space.in_unit(self._positives[kept - 1 : kept])[0]))
        return found

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """Return the interval of a rate at a threshold, over people."""
        return self.judge(threshold).intervals[rate]

    def trials(self, rate: str) -> int:
        """Return the number of trials that a rate is a share of."""
        positives = len(self._positives)
        return positives if rate == "frr" else len(self._listed.trials) - positives

    def written(self, threshold: float) -> WrittenThreshold:
        """Return the threshold as a decimal that accepts the same trials in any arithmetic."""

        def around(low: Fraction, high: Fraction) -> Distances:
            first, last = (largest_float(self._space.raw(end)) for end in (low, high))
            distances = self._listed.distances
            return np.sort(distances[(distances >= first) & (distances <= last)])

        return write_between(self._space, threshold, around)

    def judge(self, threshold: float) -> Judgement:
        """Return all that a threshold leads to."""
        tau = as_decimal(self._space, threshold)
        names = {"far": f"fmr@tau={tau}", "frr": f"fnmr@tau={tau}"}
        scores = self._scored(list(names.values()), REQUEST)
        values = {key: scores[name].value for key, name in names.items()}
        return Judgement(values, {key: scores[name].interval for key, name in names.items()}, [])

    def _scored(self, names: list[str], request: IntervalRequest | None) -> Result:
        return score_listed(self._listed, registry.parse_all(names), request)


def choose_on_list(
    chosen_on: ListedTrials, rate: str, target: Decimal, judged_on: ListedTrials | None = None
) -> OperatingPoint:
    """Choose a threshold on a list of trials, and judge it on another, or on the same."""
    if judged_on is not None and judged_on.distance != chosen_on.distance:
        raise InputError(
            f"apply has {judged_on.distance} and the list on which the threshold is chosen "
            f"{chosen_on.distance}; judge both by the same distance."
        )
    threshold, ends = found_threshold(chosen_on, rate, target)
    written = chosen_on.written(threshold)
    other = chosen_on if judged_on is None else judged_on
    judgement = other.judge(float(written.text))
    return OperatingPoint(
        threshold,
        ends,
        float(target),
        judgement.values,
        judgement.intervals,
        other == chosen_on,
        chosen_on.distance,
        [],
        rate=rate,
        decimal=written.text,
        within=written.within,
        listed=True,
    )
