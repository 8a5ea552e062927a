"""The curves of verification: ROC, DET, precision over recall, and those that its metrics draw."""

from __future__ import annotations

from collections.abc import Iterable

from truerank.core.curve import Curve
from truerank.core.metric import Metric
from truerank.families.histogram import histogram
from truerank.families.verification.pair_metric import pair_metric
from truerank.families.verification.pooled import PooledPairs

__all__ = ["curves"]


def curves(pairs: PooledPairs, metrics: Iterable[Metric]) -> dict[str, Curve]:
    """All curves of pairs, and what else the metrics draw; nothing where pairs are of one kind."""
    if pairs.lacking is not None:
        return {}
    found = pairs.pool.curves(pairs.units.space)
    distances = histogram(pairs.pool, pairs.units.space)
    found |= {} if distances is None else {"scores": distances}
    for draw in dict.fromkeys(pair_metric(metric).curve for metric in metrics):
        if draw is not None:
            curve = draw(pairs)
            found[curve.name] = curve
    return found
