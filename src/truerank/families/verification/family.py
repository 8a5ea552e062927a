"""The family of verification, as an evaluation uses it: all pairs as one pool."""

from __future__ import annotations

from truerank.core.curve import Curve
from truerank.core.folds import FoldAssignment
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.family import Context, Family
from truerank.families.pool import Pairs
from truerank.families.verification.curves import curves
from truerank.families.verification.folds import VerificationFolds
from truerank.families.verification.pooled import PooledPairs

__all__ = ["Verification"]


class Verification(Family):
    """The metrics over all pairs that an evaluation asks for."""

    def __init__(self, context: Context, metrics: list[Metric], pairs: Pairs) -> None:
        super().__init__(context, metrics)
        self._pairs = pairs  # makes further passes for the pool, which does not hold it
        self.judged = PooledPairs(pairs.pool, context.units, context.both_orders)
        self.observers = [*pairs.pool.observers]

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return self.judged.score(metric)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        return curves(self.judged, self.metrics)

    def without(self, folds: FoldAssignment) -> VerificationFolds:
        """See Family."""
        return VerificationFolds(self.context, self.metrics, self.judged, folds)
