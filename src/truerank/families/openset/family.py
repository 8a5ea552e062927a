"""The family of open-set identification, as an evaluation uses it."""

from __future__ import annotations

from truerank.core.curve import Curve
from truerank.core.folds import FoldAssignment
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.openset.collect import Identification
from truerank.families.openset.curves import curve_names, dir_over_far
from truerank.families.openset.folds import OpenSetFolds
from truerank.families.thresholds import measure

__all__ = ["OpenSet"]


class OpenSet(Identification):
    """The family of DIR, FAR, TTR and FTR."""

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        mates = self.context.with_mate
        if mates.all() or not mates.any():
            return {}
        names = curve_names(self)
        return {name: Curve(name, dir_over_far(self, rank)) for rank, name in names.items()}

    def without(self, folds: FoldAssignment) -> OpenSetFolds:
        """See Family."""
        return OpenSetFolds(self, folds)
