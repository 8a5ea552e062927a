"""The family of OPIS, as an evaluation uses it."""

from __future__ import annotations

from truerank.core.curve import Curve
from truerank.core.folds import FoldAssignment
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.family import Without
from truerank.families.opis.collect import CountedClasses
from truerank.families.opis.curves import utility_curve
from truerank.families.opis.folds import OpisFolds, Unlabelled
from truerank.families.opis.scores import Consistency, report
from truerank.families.thresholds import measure

__all__ = ["Opis"]


class Opis(CountedClasses):
    """The family of OPIS: the variance of classes' utilities, or the gap from best to worst."""

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        found = (utility_curve(self, metric) for metric in self.metrics)
        utility = next((one for one in found if one is not None), None)
        return self.pairs.curves() | ({} if utility is None else {"utility": utility})

    def report(self) -> Consistency | None:
        """See Family: where the first OPIS that is defined was taken, and what stands beside it."""
        found = (report(self, metric) for metric in self.metrics)
        return next((one for one in found if one is not None), None)

    def without(self, folds: FoldAssignment) -> Without:
        """See Family."""
        if self.context.task.levels is None:
            return Unlabelled()
        return OpisFolds(self, folds)
