"""The curve of DIR over FAR: queries identified, by the share of strangers accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve import ENDS, POINTS
from truerank.families.openset.collect import Identification
from truerank.families.openset.scores import observed_below

__all__ = ["curve_names", "dir_over_far"]

Reals = npt.NDArray[np.float64]


def curve_names(seen: Identification) -> dict[int, str]:
    """The name of the curve of each rank at which DIR is asked for."""
    return {rank: "dir" if rank == 1 else f"dir@rank={rank}" for rank in seen.hits}


def dir_over_far(seen: Identification, rank: int) -> dict[str, npt.NDArray[Any]]:
    """DIR where r of the queries without a mate are accepted, r from 0 to all of them.

    The threshold is NaN where nothing at all is accepted.
    """
    impostors = np.sort(seen.nearest[~seen.context.with_mate])
    count = len(impostors)
    accepted = np.unique(np.linspace(0, count, min(count, POINTS) + 1).astype(np.int64))
    limits = np.append(impostors, np.inf)[accepted]
    order = np.argsort(seen.first[seen.context.with_mate], kind="stable")
    first = seen.first[seen.context.with_mate][order]
    hits = seen.hits[rank][:, seen.context.with_mate][:, order]
    totals = _running_means(hits)
    place = np.searchsorted(first, limits, side="left")
    columns: dict[str, npt.NDArray[Any]] = {"far": np.searchsorted(impostors, limits) / count}
    columns |= dict(zip(ENDS, totals[:, place], strict=True))
    largest = observed_below(seen, limits)
    threshold = seen.context.space.in_unit(np.where(np.isfinite(largest), largest, 0.0))
    return columns | {"threshold": np.where(np.isfinite(largest), threshold, np.nan)}


def _running_means(hits: Reals) -> Reals:
    """Means over all queries of the hits of the first n, summed in integers."""
    count = hits.shape[1]
    one = 2.0 ** min(52, 62 - count.bit_length())
    sums = np.zeros((3, count + 1), np.int64)
    np.cumsum(np.rint(hits * one).astype(np.int64), axis=1, out=sums[:, 1:])
    return np.asarray(sums / (one * count), np.float64)
