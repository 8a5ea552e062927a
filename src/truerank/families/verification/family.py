"""Verification as an evaluation asks for it: all pairs as one pool."""

from __future__ import annotations

from truerank.core.curve import Curve
from truerank.core.folds import Dealing
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.context import Context
from truerank.families.family import Family
from truerank.families.pairs import Pairs
from truerank.families.thresholds import measure
from truerank.families.verification.folds import PairShares
from truerank.families.verification.scores import PooledPairs

__all__ = ["Verification"]


class Verification(Family):
    """AUC, EER, minDCF, TAR, thresholds, and the rates at a threshold."""

    def __init__(self, context: Context, metrics: list[Metric], pairs: Pairs) -> None:
        super().__init__(context, metrics)
        self._pairs = pairs
        self.judged = PooledPairs(pairs.pool, context.units, context.both_orders)
        self.watchers = [*pairs.pool.watchers]

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self.judged)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        return self._pairs.curves()

    def without(self, dealing: Dealing) -> PairShares:
        """See Family."""
        return PairShares(self.context, self.metrics, self.judged, dealing)
