"""Intervals of threshold metrics, from how their scores move without each share of the classes.

In leave-one-out a share leaves both as queries and as gallery; a gallery of its own stays, and the
shares are of the queries alone. Either way the jackknife's error is that of a score whose
thresholds were found in the same data.
"""

from __future__ import annotations

import numpy as np

from truerank.core import registry
from truerank.core.metric import Metric
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.families.family import Moves
from truerank.stats import intervals
from truerank.stats.intervals import Interval

__all__ = ["interval_of"]


def interval_of(score: Score, metric: Metric, moves: Moves, confidence: float) -> Interval:
    """Of a score that exists."""
    if isinstance(moves, str):
        return Interval(reason=moves)
    if isinstance(moves, np.ndarray):
        if not np.isfinite(moves).all():
            return Interval(reason="without some of the classes it is not defined")
        own, paired = np.split(score.value + moves, 2)
        moves = Replicates(tuple(own.tolist())), Replicates(tuple(paired.tolist()))
    known = registry.definition(metric)
    return intervals.from_replicates(
        score.value, *moves, confidence, known.range, steep=known.is_steep
    )
