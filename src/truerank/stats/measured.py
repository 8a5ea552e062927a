"""Intervals of threshold metrics: each family says how its scores move without a share.

In leave-one-out a share leaves both as queries and as gallery; a gallery of its own stays, and the
shares are of the queries alone. Either way the jackknife's error is that of a score whose
thresholds were found in the same data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from truerank.engine.watch import Witness
from truerank.metrics import registry
from truerank.metrics.registry import Metric, RankingDefinition, ThresholdDefinition
from truerank.stats import intervals
from truerank.stats.consistency import ConsistencyShares
from truerank.stats.gom import PEAKS, REASONS, GomShares
from truerank.stats.identification import IdentificationShares
from truerank.stats.intervals import Interval
from truerank.stats.jackknife import Replicates
from truerank.stats.pairs import PairShares
from truerank.stats.shares import Dealing

if TYPE_CHECKING:
    from truerank.evidence import Evidence
    from truerank.result import Score

__all__ = ["Measured", "is_mean", "is_steep"]

Reals = npt.NDArray[np.float64]


def is_mean(metric: Metric) -> bool:
    """Whether it is a mean over queries, at thresholds that the data do not set."""
    definition = registry.definition(metric)
    if isinstance(definition, RankingDefinition):
        return True
    if metric.option("far") is not None or metric.option("scale") == "minmax":
        return False
    return definition.family == "openset" or (
        definition.family == "gom" and metric.name not in (*PEAKS, *REASONS)
    )


def is_steep(metric: Metric) -> bool:
    """Whether a few classes may make up most of what a score loses: no rate of false accepts."""
    definition = registry.definition(metric)
    return isinstance(definition, ThresholdDefinition) and (
        definition.family != "openset" and metric.name != "mfr"
    )


class _Family(Protocol):
    @property
    def watchers(self) -> list[Witness]: ...

    def moves(
        self, metric: Metric, score: Score
    ) -> Reals | tuple[Replicates, Replicates] | str: ...


class Measured:
    """The families that were asked for, and their intervals once the pass is over."""

    def __init__(self, evidence: Evidence, dealing: Dealing) -> None:
        families = {registry.definition(metric).family for metric in evidence.metrics}
        makers: dict[str, Callable[[Evidence, Dealing], _Family]] = {
            "verification": PairShares,
            "openset": IdentificationShares,
            "gom": GomShares,
            "consistency": ConsistencyShares,
        }
        labelled = evidence.task.levels is not None
        self.dealing = dealing
        self.only_means = all(is_mean(metric) for metric in evidence.metrics)
        """Whether nothing but means over queries was asked for."""
        self._families: dict[str, _Family] = {
            name: make(evidence, dealing)
            for name, make in makers.items()
            if name in families and (labelled or name != "consistency")
        }

    @property
    def watchers(self) -> list[Witness]:
        """Who must see all pairs of the first pass."""
        return [watcher for family in self._families.values() for watcher in family.watchers]

    def interval(self, score: Score, metric: Metric, confidence: float) -> Interval:
        """Of a score that exists."""
        definition = registry.definition(metric)
        found = self._families[definition.family].moves(metric, score)
        if isinstance(found, str):
            return Interval(reason=found)
        if isinstance(found, np.ndarray):
            if not np.isfinite(found).all():
                return Interval(reason="without some of the classes it is not defined")
            values = score.value + found
            own, paired = np.split(values, 2)
            found = Replicates(tuple(own.tolist())), Replicates(tuple(paired.tolist()))
        return intervals.from_replicates(
            score.value, *found, confidence, definition.range, steep=is_steep(metric)
        )
