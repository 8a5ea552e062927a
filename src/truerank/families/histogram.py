"""A histogram of distances: how near mates are, and others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.engine.cuts import Cuts, tally
from truerank.families.pool import Pooled
from truerank.jit import compiled
from truerank.space import Distances, Space

__all__ = ["histogram"]

BINS = 60


def histogram(pool: Pooled, space: Space) -> Curve | None:
    """Shares of mates and of others in bins of distance; None where all distances are the same.

    `distance` is a bin's far end and `from` its near one. Bins are equal, and no narrower than the
    steps of float64, so that distances that hardly differ have fewer; of very many pairs only
    some numbers up to given distances are known: bins end at such as lie nearest, and are at least
    half as wide as equal ones.
    """
    kept = pool.all_distances()
    if kept is not None:
        parts = kept.unordered()
        low, high = min(part.min() for part in parts), max(part.max() for part in parts)
        ends = _distinct(np.linspace(low, high, BINS + 1), space)
        true = pool.positives.up_to(ends)
        false = _up_to(parts, ends) - true
    else:
        at = pool.cuts.at
        even = np.linspace(float(at[0]), float(at[-1]), BINS + 1)
        place = _apart(at, np.unique(np.searchsorted(at, even)), (even[1] - even[0]) / 2)
        ends, true, false = at[place], pool.true_accepts[place], pool.false_accepts[place]
    if not ends[0] < ends[-1]:
        return None
    shares = {}
    for kind, counts, every in (("mates", true, pool.genuine), ("others", false, pool.impostors)):
        counts = counts.copy()
        counts[0], counts[-1] = 0, every  # the first bin holds what is nearer, the last the rest
        shares[kind] = np.diff(counts) / every
    borders = space.in_unit(ends)
    return Curve("scores", {"distance": borders[1:], "from": borders[:-1], **shares})


def _distinct(ends: Distances, space: Space) -> Distances:
    """Ascending ends less those that rounding, also to the user's unit, makes equal to the last."""
    borders = space.in_unit(ends)
    return np.asarray(ends[np.append(True, borders[1:] != borders[:-1])], np.float64)


def _apart(at: Distances, places: npt.NDArray[np.int64], least: float) -> list[int]:
    """Places in ascending distances, the first and the last among them, that lie so far apart."""
    kept = [int(places[0])]
    for place in places[1:].tolist():
        if at[place] - at[kept[-1]] >= least:
            kept.append(place)
        elif place == places[-1] and len(kept) > 1:
            kept[-1] = place
    return kept


def _up_to(parts: list[Distances], thresholds: Distances) -> npt.NDArray[np.int64]:
    """How many distances each of ascending thresholds accepts."""
    cuts = Cuts.of(thresholds)
    counts = np.zeros((1, len(cuts) + 1), np.int64)
    for part in parts:
        tally(part[None, :], cuts, np.zeros(1, np.int64), counts, compiled=compiled())
    return np.asarray(np.cumsum(counts[0])[np.searchsorted(cuts.at, thresholds)], np.int64)
