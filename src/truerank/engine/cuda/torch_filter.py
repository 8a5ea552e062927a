"""The filter's kernels in plain torch operations, for tests anywhere.

The contract of each is that of its namesake in truerank.engine.cuda.filter_kernels.
"""

from __future__ import annotations

from typing import Any

import torch

from truerank.engine.cuda import torch_kernels
from truerank.engine.cuda.splitting import Splitting

__all__ = ["half_products", "list_near", "refine", "room_for_products", "settle"]


def room_for_products(queries: int, items: int, device: Any) -> Any:
    """An empty matrix for half_products."""
    return torch.empty((queries, items), dtype=torch.float32, device=device)


def half_products(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
    """Products of half-precision rows."""
    out[:queries, :items] = left[:queries].float() @ right[:items].float().T


def list_near(products: Any, queries: int, items: int, lost: Any, found: Any, near: Any) -> None:
    """Write down the items that may lie within each query's farthest mate."""
    seen = products[:queries, :items]
    query, item = torch.nonzero(seen >= lost[:, -1:], as_tuple=True)
    count, place = _places(query, queries)
    both = torch.stack([seen[query, item].view(torch.int32), item.to(torch.int32)], 1)
    near[query, found[query] + place] = both.view(torch.int64).flatten()
    found += count.to(found.dtype)


def settle(
    sure: Any,
    lost: Any,
    near_found: Any,
    near: Any,
    bins: Any,
    found: Any,
    entries: Any,
    split: Splitting | None,
) -> None:
    """Count the listed items that half precision decides; the open ones go to `entries`."""
    m, room = sure.shape[1], entries.shape[1]
    places = torch.arange(near.shape[1], device=near.device)
    query, column = torch.nonzero(places < near_found[:, None], as_tuple=True)
    both = near[query, column][:, None].view(torch.int32)
    product, item = both[:, 0].contiguous().view(torch.float32), both[:, 1].long()
    low = (sure[query] >= product[:, None]).sum(1)
    before = torch.gather(lost[query], 1, (low - 1).clamp(min=0)[:, None])[:, 0]
    is_open = (product >= before) & (low > 0)
    counts = ~is_open & (low < m)
    _add(bins, (query[counts], low[counts]))
    _by_fold(split, query, low, item, counts, None)
    query, item = query[is_open], item[is_open]
    count, place = _places(query, len(sure))
    place += found[query]
    held = place < room
    entries[query[held], place[held]] = item[held].to(entries.dtype)
    found += count.to(found.dtype)


def refine(
    left: Any,
    right: Any,
    a: Any,
    b: Any,
    mode: str,
    edges: Any,
    found: Any,
    entries: Any,
    bins: Any,
    equal: Any,
    split: Splitting | None,
) -> None:
    """Decide the open pairs by exact products of integer rows."""
    room = entries.shape[1]
    number = torch.where(found > room, 0, found)
    query, column = torch.nonzero(
        torch.arange(room, device=found.device) < number[:, None], as_tuple=True
    )
    item = entries[query, column].long()
    product = torch_kernels.pair_products(left, right, query, item)
    d = torch_kernels.distances(product, a[query], b[item], mode)
    counts = d <= edges[query, -1]
    query, item, d = query[counts], item[counts], d[counts]
    low = (edges[query] < d[:, None]).sum(1)
    same = edges[query, low] == d
    _add(bins, (query, low + same))
    _add(equal, (query[same], low[same]))
    _by_fold(split, query, low + same, item, torch.ones_like(same), (low, same))


def _places(query: Any, queries: int) -> tuple[Any, Any]:
    """How often each query comes in a sorted list, and the number of each entry among its own."""
    count = torch.bincount(query, minlength=queries)
    first = torch.cumsum(count, 0) - count
    return count, torch.arange(len(query), device=query.device) - first[query]


def _add(table: Any, at: tuple[Any, ...]) -> None:
    table.index_put_(at, torch.ones_like(at[0], dtype=table.dtype), accumulate=True)


def _by_fold(
    split: Splitting | None, query: Any, bin_: Any, item: Any, counts: Any, level: Any
) -> None:
    """Add counted items to their folds' columns, for the queries that are split."""
    if split is None:
        return
    place = split.place[query].long()
    for way in split.fold.T:
        column = way[item].long()
        mine = counts & (place >= 0)
        _add(split.bins, (place[mine], bin_[mine], column[mine]))
        if level is not None:
            low, same = level
            mine = same & (place >= 0)
            _add(split.equal, (place[mine], low[mine], column[mine]))
