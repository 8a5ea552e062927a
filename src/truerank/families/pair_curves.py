"""ROC and DET: what a threshold accepts of either kind of pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.core.curve import POINTS, Curve

if TYPE_CHECKING:
    from truerank.families.pool import Pooled
    from truerank.space import Space

__all__ = ["corners", "of_pairs"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def of_pairs(pool: Pooled, space: Space) -> dict[str, Curve]:
    """ROC and DET."""
    far, tar, threshold = _operating_points(pool, space)
    return {
        "roc": Curve("roc", {"far": far, "tar": tar, "threshold": threshold}),
        "det": Curve("det", {"far": far, "frr": 1 - tar, "threshold": threshold}),
    }


def corners(pool: Pooled) -> Integers:
    """The cuts at every corner of the curve, or at some where there are very many."""
    steps = np.flatnonzero(np.diff(pool.true_accepts, prepend=0))
    if len(steps) > POINTS:
        true = np.linspace(0, pool.genuine, POINTS // 2 + 1)
        false = np.logspace(0, np.log10(pool.impostors), POINTS // 2 + 1)
        places = [
            np.searchsorted(counts[steps], wanted)
            for counts, wanted in ((pool.true_accepts, true), (pool.false_accepts, false))
        ]
        steps = steps[np.unique(np.minimum(np.concatenate(places), len(steps) - 1))]
    keep = np.unique(np.concatenate([steps - 1, steps]))
    return keep[keep >= 0]


def _operating_points(pool: Pooled, space: Space) -> tuple[Reals, Reals, Reals]:
    """FAR, TAR and threshold, from nothing accepted to everything."""
    keep = corners(pool)
    with np.errstate(invalid="ignore"):  # just below the distance 0 lies nothing: NaN
        threshold = space.in_unit(pool.cuts.at[keep])
    return (
        np.concatenate([[0.0], pool.false_accepts[keep] / pool.impostors, [1.0]]),
        np.concatenate([[0.0], pool.true_accepts[keep] / pool.genuine, [1.0]]),
        np.concatenate([[np.nan], threshold, [np.nan]]),
    )
