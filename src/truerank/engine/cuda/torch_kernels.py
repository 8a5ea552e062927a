"""The exact kernels in plain torch operations: for devices without Triton, and for tests anywhere.

The contract (edges, less, bins, equal) is that of truerank.engine.cuda.triton_kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from truerank.engine.cuda.splitting import Splitting

if TYPE_CHECKING:
    from truerank.engine.cuda.distance_block import DeviceCuts
    from truerank.engine.distance_block import DistanceRange

__all__ = [
    "FUSED",
    "between",
    "count_on_grid",
    "count_tile",
    "distances",
    "elementwise_tile",
    "fill_distances",
    "nearer",
    "pair_products",
    "split_tile",
    "tally",
    "tally_by_fold",
]

FUSED = False
ZERO = 2.0**51
"""The distance of orthogonal rows, in cosine's unit 2^-50."""
_NUMBERS = 1 << 24


def distances(product: Any, a: Any, b: Any, mode: str) -> Any:
    """Distances from exact products and norms; see truerank.space.inner for why they are exact,
    and truerank.space.cosine and short for what is more."""
    if mode == "squared":
        return (a + b) - 2.0 * product
    if mode == "cosine":
        return torch.where(product == 0, ZERO, (a + b) - 2.0 * product)
    if mode == "short":
        steps = torch.round(_root(product * product / (a * b)) * ZERO)
        return torch.where(product < 0, ZERO + steps, ZERO - steps)
    if mode == "euclidean":
        high = a + b
        part = high - a
        low = (a - (high - part)) + (b - part)
        return (product + high) + low
    return product + 0.0


def _root(squares: Any) -> Any:
    """Square roots, correctly rounded; torch's own are not on every CPU."""
    if squares.device.type != "cpu":
        return torch.sqrt(squares)
    return torch.from_numpy(np.sqrt(squares.numpy()))


def fill_distances(out: Any, tile: Any, a: Any, b: Any, mode: str) -> None:
    """Distances from a (queries, items) tile of exact products and the norms of rows and items."""
    out.copy_(distances(tile, a[:, None], b[None, :], mode))


def pair_products(left: Any, right: Any, query: Any, item: Any) -> Any:
    """X_q . Y_g of single pairs of integer rows: exact, since every partial sum is below 2^53."""
    out = torch.empty(len(query), dtype=torch.float64, device=left.device)
    step = max(1, _NUMBERS // left.shape[1])
    for start in range(0, len(query), step):
        some = slice(start, start + step)
        x = left[query[some]].double()
        out[some] = (x * right[item[some]].double()).sum(1)
    return out


def count_tile(
    tile: Any, a: Any, b: Any, mode: str, edges: Any, less: Any, bins: Any, equal: Any
) -> None:
    """Add a (queries, items) tile of exact products; a and b are the norms of rows and items."""
    d = distances(tile, a[:, None], b[None, :], mode)
    last = edges.shape[1] - 1
    place = torch.searchsorted(edges, d)
    counts = place <= last
    found = torch.gather(edges, 1, place.clamp(max=last))
    same = counts & (found == d)
    bins.scatter_add_(1, torch.where(counts, place + same, last + 1), counts.to(bins.dtype))
    equal.scatter_add_(1, place.clamp(max=last), same.to(equal.dtype))


def split_tile(
    tile: Any, a: Any, b: Any, mode: str, edges: Any, rows: Any, split: Splitting
) -> None:
    """Add a tile as count_tile does, by fold, for the queries that are split."""
    d = distances(tile[rows], a[rows, None], b[None, :], mode)
    last = edges.shape[1] - 1
    at = torch.searchsorted(edges[rows], d)
    query, item = torch.nonzero(at <= last, as_tuple=True)
    at = at[query, item]
    same = edges[rows[query], at] == d[query, item]
    place = split.place[rows[query]].long()
    for way in split.fold.T:
        column = way[item].long()
        one = torch.ones_like(column, dtype=torch.int32)
        split.bins.index_put_((place, at + same, column), one, accumulate=True)
        split.equal.index_put_((place, at, column), same.to(torch.int32), accumulate=True)


def nearer(distances: Any, limit: Any) -> Any:
    """How many items of each row are nearer than its limit."""
    return (distances < limit[:, None]).sum(1)


def tally(distances: Any, cuts: DeviceCuts, who: Any, owners: int, *, turned: bool) -> Any:
    """(owners, cuts + 1): finite distances up to each cut and above the one before, by the owner of
    their row, or of their column if turned."""
    cells = len(cuts.at) + 1
    place = torch.searchsorted(cuts.at, distances)
    place += cells * (who[None, :] if turned else who[:, None])
    found = torch.bincount(place[distances < torch.inf], minlength=owners * cells)
    return found.view(owners, cells)


def tally_by_fold(
    distances: Any,
    cuts: DeviceCuts,
    who: Any,
    owners: int,
    fold: Any,
    columns: int,
    *,
    turned: bool,
) -> Any:
    """(owners, columns, cuts): distances up to each cut and above the one before, by the owner of
    their row and the folds of their column, or the other way round if turned."""
    cells = len(cuts.at)
    query, item = torch.nonzero(distances <= cuts.at[-1], as_tuple=True)
    mine, other = (item, query) if turned else (query, item)
    place = torch.searchsorted(cuts.at, distances[query, item]) + who[mine] * (columns * cells)
    found = torch.zeros(owners * columns * cells, dtype=torch.int64, device=distances.device)
    for way in fold.T:
        found += torch.bincount(place + cells * way[other].long(), minlength=len(found))
    return found.view(owners, columns, cells)


def between(distances: Any, ranges: Sequence[DistanceRange]) -> list[Any]:
    """The distances in each range (low, high], in no order; ends must be finite above."""
    flat = distances.flatten()
    return [flat[(flat > low) & (flat <= high)] for low, high in ranges]


def count_on_grid(distances: Any, grid: Any, low: float, scale: float | None) -> Any:
    """(rows, cuts + 1): distances that each cut accepts, and all of them."""
    cells = len(grid) + 1
    place = torch.searchsorted(grid, distances)
    place += cells * torch.arange(len(distances), device=grid.device)[:, None]
    found = torch.bincount(place.flatten(), minlength=cells * len(distances))
    return torch.cumsum(found.view(len(distances), cells), 1, dtype=torch.int32)


def elementwise_tile(left: Any, right: Any, centre: int, *, unequal: bool) -> Any:
    """Sums of absolute differences (or numbers of unequal components) of int64 rows, centred."""
    out = torch.empty((len(left), len(right)), dtype=torch.float64, device=left.device)
    step = max(1, _NUMBERS // max(1, right.numel()))
    for start in range(0, len(left), step):
        x = left[start : start + step, None]
        each = (x != right[None]).long() if unequal else (x - right[None]).abs()
        out[start : start + step] = (each.sum(2) - centre).double()
    return out
