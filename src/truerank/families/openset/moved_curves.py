"""The curve of DIR over FAR without each fold of the classes, its thresholds found again."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FoldAssignment
from truerank.families.openset.collect import Identification
from truerank.space import Distances

__all__ = ["GalleryWithout", "moved_dir"]


class GalleryWithout(Protocol):
    """The gallery without each fold, as queries see it."""

    def nearest(self, column: int) -> Distances:
        """The distance of every query's nearest candidate, without a fold."""

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
    strangers = int((~mates).sum())
    accepted = np.rint(curve["far"] * strangers).astype(np.int64)
    order = np.flatnonzero(mates)[np.argsort(seen.first[mates], kind="stable")]
    first = seen.first[order]
    columns = range(folds.own.start, folds.own.stop)
    values = np.empty((len(columns), len(accepted)))
    for column in columns:
        kept = (folds.query != column).all(axis=1)
        impostors = np.sort(gallery.nearest(column)[kept & ~mates])
        # floor(f N') strangers may be accepted of those that are left, as of all floor(f N) may
        limits = np.append(impostors, np.inf)[accepted * len(impostors) // strangers]
        found = gallery.hits(rank, column)[order] * kept[order]
        running = np.append(0, np.cumsum(found > 0.5))
        targets = max(int(kept[order].sum()), 1)
        values[column] = running[np.searchsorted(first, limits, side="left")] / targets
    values[:, accepted < fewest] = np.nan
    return CurveMoves("lower", "dir", values, rises=1)
