"""The family of GOM, as an evaluation uses it."""

from __future__ import annotations

from truerank.core.curve import Curve
from truerank.core.folds import FoldAssignment
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.gom.axes import GomAxes
from truerank.families.gom.collect import Gom
from truerank.families.gom.curves import of_gom
from truerank.families.gom.folds import GomFolds
from truerank.families.thresholds import measure

__all__ = ["GomFamily"]


class GomFamily(GomAxes):
    """The family of mRP, mVP, mReP and mFR at thresholds, over all of them, and at the best."""

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        found: dict[str, Curve] = {}
        for scale, gom in self.seen.items():
            if isinstance(gom, Gom):
                found |= of_gom(self, scale)
        return found

    def without(self, folds: FoldAssignment) -> GomFolds:
        """See Family."""
        return GomFolds(self, folds)
