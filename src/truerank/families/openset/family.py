"""The family of open-set identification, as an evaluation uses it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.folds import FoldAssignment
from truerank.core.groups import LocatedGroups
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.openset.collect import Identification
from truerank.families.openset.curves import curve_names, dir_over_far
from truerank.families.openset.folds import OpenSetFolds
from truerank.families.openset.growth import SmallerGalleries
from truerank.families.thresholds import measure
from truerank.growth.values import Growth

__all__ = ["OpenSet"]

Integers = npt.NDArray[np.int64]


class OpenSet(Identification):
    """The family of DIR, FAR, TTR and FTR."""

    smaller: SmallerGalleries | None = None

    def widen(self, growth: Growth) -> None:
        """See Family."""
        self.smaller = SmallerGalleries(self, growth)

    def collect(self, rows: Integers, groups: LocatedGroups) -> None:
        """See Family."""
        super().collect(rows, groups)
        if self.smaller is not None:
            self.smaller.collect(rows, groups)

    def collected(self) -> dict[str, npt.NDArray[Any]]:
        """See Family."""
        more = {} if self.smaller is None else self.smaller.collected()
        return super().collected() | more

    def score_at(self, metric: Metric, place: int) -> Score | None:
        """See Family."""
        return None if self.smaller is None else self.smaller.score(metric, place)

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
        return OpenSetFolds(self, folds, self.smaller)
