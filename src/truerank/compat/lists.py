"""Lists of neighbours: how they are made where nobody else makes them, and what they score.

`same` is (queries, places): whether the neighbour in each place is a mate. `mates` is how many
mates each query has in all, found or not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.compat.sides import Sides
from truerank.space import Space

__all__ = ["average_precision", "nearest", "precision_at_1", "r_precision", "reciprocal_rank"]

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
HELD = 1 << 22
"""Distances held at a time while lists are made."""


def nearest(sides: Sides, space: Space, depth: int) -> tuple[Reals, Integers]:
    """The nearest rows of the reference, and how far they are; of equally near ones mates last."""
    items = len(sides.reference)
    depth = min(depth, items - int(sides.includes_query))
    distances = np.empty((len(sides.query), depth))
    places = np.empty((len(sides.query), depth), np.int64)
    step = max(1, HELD // items)
    for top in range(0, len(sides.query), step):
        rows = np.arange(top, min(top + step, len(sides.query)))
        block = np.array(space.block(rows)(0, items))
        if sides.includes_query:
            block[np.arange(len(rows)), rows] = np.inf
        order = np.lexsort((sides.relevant(rows), block))[:, :depth]
        places[rows] = order
        distances[rows] = np.take_along_axis(block, order, axis=1)
    shape = distances.shape
    return np.asarray(space.in_unit(distances.ravel()).reshape(shape), np.float64), places


def precision_at_1(same: Flags, mates: Integers) -> Reals:
    """1 where the first neighbour is a mate."""
    return np.asarray(same[:, :1].any(axis=1), np.float64)


def reciprocal_rank(same: Flags, mates: Integers) -> Reals:
    """One over the place of the first mate; 0 where there is none in the list."""
    found = same.any(axis=1)
    first = same.argmax(axis=1) if same.shape[1] else np.zeros(len(same), np.int64)
    return np.where(found, 1.0 / (first + 1), 0.0)


def average_precision(same: Flags, mates: Integers, *, at_r: bool = False) -> Reals:
    """Sum of the precisions at the mates found, over the number of mates.

    At R only the first places count, as many as there are mates.
    """
    rank = np.arange(1, same.shape[1] + 1)
    counted = same & (rank <= mates[:, None]) if at_r else same
    precision = np.cumsum(counted, axis=1) / rank
    return np.asarray((precision * counted).sum(axis=1) / mates, np.float64)


def r_precision(same: Flags, mates: Integers) -> Reals:
    """Share of mates among the first R places, or among all where the list is shorter."""
    places = np.minimum(mates, same.shape[1])
    counted = same & (np.arange(same.shape[1]) < mates[:, None])
    return np.asarray(counted.sum(axis=1) / np.maximum(places, 1), np.float64)
