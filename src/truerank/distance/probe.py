"""Check of matrix products in float64 and float32 against integers, on every run.

The checked cases are some of the user's pairs, a block of all-positive rows (sums that only
grow) and a block with an outlier dimension (sums that mix large and tiny terms): a BLAS that
emulates precision or reorders in lower precision fails on these. A float32 product outside its
bound (some round their operands to 16 bits) is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from truerank._util.errors import ExactnessError
from truerank._util.threads import single_threaded_blas
from truerank.distance.base import Distances, Facts, Rows, Space
from truerank.distance.cosine import Cosine, SourcedCosine
from truerank.distance.inner_product import SquaredDistance
from truerank.distance.rows import GridRows

_QUERIES, _ITEMS = 16, 96
Tiles = Callable[[Space], Callable[[Rows], Callable[[int, int], Distances]]]


def probe(space: Space, tiles: Tiles = lambda space: space.block) -> None:
    """Raise ExactnessError unless tiles and integers agree on samples of this space.

    `tiles` says how a space's tiles are made, by the space itself unless a device does.
    """
    samples = {"the given rows": space}
    if isinstance(space, (SquaredDistance, SourcedCosine)):
        dimension = space.dimension
        samples["all-positive rows"] = _synthetic(_all_positive, dimension)
        samples["rows with an outlier dimension"] = _synthetic(_with_outlier, dimension)
    with single_threaded_blas():  # as tiles are made
        trusted = [_compare(sample, tiles, what) for what, sample in samples.items()]
    if not all(trusted):
        space.single = None
        space.facts.notes.append("the float32 product of this machine breaks its error bound")


def _compare(space: Space, tiles: Tiles, what: str) -> bool:
    """Whether float32 scores keep within their intervals; an error if float64 is not exact."""
    query = _spread(space.queries, _QUERIES)
    start = max(0, (space.gallery - _ITEMS) // 2)
    stop = min(space.gallery, start + _ITEMS)
    tile = tiles(space)(query)(start, stop)
    pairs = np.meshgrid(query, np.arange(start, stop), indexing="ij")
    expected = space.pairs(pairs[0].ravel(), pairs[1].ravel()).reshape(tile.shape)
    if not np.array_equal(tile, expected) and isinstance(space, Cosine) and space.short is not None:
        space.short.dtype = np.float64  # of the machine's float32 products not even these are exact
        tile = tiles(space)(query)(start, stop)
    if not np.array_equal(tile, expected):
        wrong = int((tile != expected).sum())
        raise ExactnessError(
            f"the float64 matrix product of this machine is not exact: {wrong} of {tile.size} "
            f"checked distances of {what} differ from integer arithmetic; use another BLAS, or "
            "switch off its float64 emulation."
        )
    if space.single is None:
        return True
    out = np.empty((stop - start, space.single.dimension), np.float32)
    left, right = space.single.queries(query), space.single.items(start, stop, out)
    for single in (space.single, space.single.in_slices()):
        scores = np.zeros(expected.size, np.float32)
        for some in single.slices:
            scores += product(left[:, some], right[:, some]).ravel()
        low, high = single.intervals(pairs[0].ravel(), expected.ravel())
        if not np.all((low <= scores) & (scores <= high)):
            return False
    return True


def product(
    left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The float32 product under test."""
    scores: npt.NDArray[np.float32] = left @ right.T
    return scores


def _spread(count: int, most: int) -> Rows:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


@lru_cache(maxsize=4)
def _synthetic(make: Callable[[int], npt.NDArray[np.float64]], dimension: int) -> Space:
    """The rows that a function makes, kept for the next probes of this dimension."""
    rows = make(dimension)
    unit = rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    integers = np.rint(unit * 2.0**25).astype(np.int32)
    nothing = np.zeros(len(rows), np.int32)
    grid = GridRows(integers, nothing, nothing.astype(bool))
    return Cosine(grid, grid, Facts("cosine", "probe"))


def _all_positive(dimension: int) -> npt.NDArray[np.float64]:
    return 1.0 + _noise(dimension)


def _with_outlier(dimension: int) -> npt.NDArray[np.float64]:
    rows = (_noise(dimension) - 0.5) * 2.0**-12
    rows[:, dimension // 2] = 1.0
    return rows


def _noise(dimension: int) -> npt.NDArray[np.float64]:
    """Fixed numbers in [0, 1) without a pattern (a Weyl sequence)."""
    steps = np.arange(1, 64 * dimension + 1) * 0.6180339887498949
    return np.asarray(steps % 1.0, np.float64).reshape(64, dimension)
