"""OPIS as an evaluation asks for it."""

from __future__ import annotations

from truerank.core.curve import Curve
from truerank.core.folds import Dealing
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.family import Without
from truerank.families.opis.collect import CountedClasses
from truerank.families.opis.folds import ConsistencyShares, Unlabelled
from truerank.families.opis.scores import Consistency, report
from truerank.families.thresholds import measure

__all__ = ["Opis"]


class Opis(CountedClasses):
    """The variance of the classes' utilities, or the gap between the best and the worst."""

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        return self.pairs.curves()

    def report(self) -> Consistency | None:
        """See Family: where the first OPIS that is defined was taken, and what stands beside it."""
        found = (report(self, metric) for metric in self.metrics)
        return next((one for one in found if one is not None), None)

    def without(self, dealing: Dealing) -> Without:
        """See Family."""
        if self.context.task.levels is None:
            return Unlabelled()
        return ConsistencyShares(self, dealing)
