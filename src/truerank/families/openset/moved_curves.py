"""The curve of DIR over FAR without each fold of the classes, with which its thresholds move."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FoldAssignment
from truerank.families.nearest_without import NearestWithout
from truerank.families.openset.collect import Identification
from truerank.families.openset.threshold_moves import neighbours_of, places_moved

__all__ = ["GalleryWithout", "moved_dir"]


class GalleryWithout(Protocol):
    """The gallery without each fold, as queries see it."""

    without: NearestWithout
    """The nearest candidates."""

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """Whether a relevant item is among the first, without a fold."""


def moved_dir(
    seen: Identification,
    folds: FoldAssignment,
    gallery: GalleryWithout,
    curve: Curve,
    rank: int,
    fewest: int,
) -> CurveMoves:
    """DIR at each FAR of the curve without each fold; NaN where fewer strangers are accepted."""
    mates = seen.context.with_mate
    strangers = np.flatnonzero(~mates)
    impostors = np.sort(seen.nearest[strangers])
    accepted = np.rint(curve["far"] * len(strangers)).astype(np.int64)
    limits = np.append(impostors, np.inf)[accepted]
    order = np.flatnonzero(mates)[np.argsort(seen.first[mates], kind="stable")]
    at = np.searchsorted(seen.first[order], limits, side="left")
    # what a place among the impostors is worth to the score, from many of them on either side
    low, high = neighbours_of(accepted, impostors)
    hits = np.append(0, np.cumsum(seen.hits[rank][0][order] == 1.0))
    ends = (np.searchsorted(seen.first[order], impostors[end], side="left") for end in (low, high))
    below, above = (hits[end] for end in ends)
    worth = np.where(
        np.isfinite(limits), (above - below) / len(order) / np.maximum(high - low, 1), 0.0
    )
    steps = places_moved(gallery.without, folds, strangers, limits, curve["far"])
    columns = range(folds.own.start, folds.own.stop)
    values = np.empty((len(columns), len(accepted)))
    for column in columns:
        kept = (folds.query != column).all(axis=1)
        found = gallery.hits(rank, column)[order] * kept[order]
        running = np.append(0, np.cumsum(found > 0.5))
        values[column] = running[at] / max(int(kept[order].sum()), 1) + worth * steps[column]
    values[:, accepted < fewest] = np.nan
    return CurveMoves("lower", "dir", values, rises=1)
