"""The CMC curve, from where every query's nearest mate stands; families draw the other curves.

A curve is a mapping from the names of its columns to arrays of one length, the abscissa first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.average import mean
from truerank.core.curve import Curve
from truerank.core.groups import TieGroups
from truerank.core.metric import Metric
from truerank.core.scale import Scale

__all__ = ["FirstMates"]

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
ENDS = ("lower", "expected", "upper")


@dataclass(frozen=True)
class FirstMates:
    """The tie group of every query's nearest mate: all that the CMC curve depends on."""

    before: Integers
    size: Integers
    relevant: Integers

    def cmc(self, ranks: int) -> Curve:
        """hit@1, hit@2, ... with their tie bounds."""
        count = len(self.before)
        groups = TieGroups(
            np.arange(count + 1),
            self.before,
            self.size,
            self.relevant.astype(np.int32)[:, None],
            self.before + self.size,
        )
        hit = registry.ranking(Metric("hit", 1)).per_query
        one = Scale(np.ones(1))
        triples = [hit(groups, Metric("hit", rank), one) for rank in range(1, ranks + 1)]
        values = np.array([[mean(end) for end in triple] for triple in triples]).T
        columns = dict(zip(ENDS, values, strict=True))
        return Curve("cmc", {"rank": np.arange(1, ranks + 1), **columns})
