"""How thresholds that a rate sets move without each fold of the classes.

A threshold stands at one of the impostors' distances, and without a fold at another one: as many
places further as the fold takes away from below it, less its due. One place among few impostors is
an accident, so what a place is worth to a score is taken from many of them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FoldAssignment
from truerank.families.nearest_without import NearestWithout
from truerank.space import Distances

__all__ = ["neighbours_of", "places_moved"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def places_moved(
    gallery: NearestWithout,
    folds: FoldAssignment,
    strangers: Integers,
    limits: Distances,
    rates: Reals,
) -> Reals:
    """(folds, limits): by how many places each limit, at its rate, moves without each fold."""
    order = np.argsort(limits, kind="stable")
    ranked = limits[order]
    found = np.empty((folds.columns, len(limits)))
    for number, way in enumerate(gallery.ways):
        nearest, farther, folds_of = gallery.two_nearest(number)
        which = folds_of[strangers]
        at, beyond = (
            np.searchsorted(ranked, d[strangers], side="right") for d in (nearest, farther)
        )
        size = way.stop - way.start
        gone, count = np.zeros((size, len(ranked) + 1), np.int64), np.zeros(size, np.int64)
        met = which >= 0
        for column in folds.query[strangers].T - way.start:
            mine = np.flatnonzero((column >= 0) & (column < size))
            np.add.at(gone, (column[mine], at[mine]), 1)
            np.add.at(count, column[mine], 1)
            met &= which != column  # a query that leaves is gone anyway
        # the nearest item of a query leaves, and the next one is no longer accepted
        np.add.at(gone, (which[met], at[met]), 1)
        np.add.at(gone, (which[met], beyond[met]), -1)
        moved = np.cumsum(gone, axis=1)[:, :-1] - rates[order] * count[:, None]
        found[way] = moved[:, np.argsort(order, kind="stable")]
    return found


def neighbours_of(places: Integers, impostors: Distances) -> tuple[Integers, Integers]:
    """Places of ascending impostors on either side, between which a place's worth is measured."""
    reach = math.isqrt(len(impostors)) + 1
    last = max(int(np.isfinite(impostors).sum()) - 1, 0)
    return np.clip(places - reach, 0, last), np.clip(places + reach, 0, last)
