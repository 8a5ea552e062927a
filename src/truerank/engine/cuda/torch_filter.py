"""The filter's kernels in plain torch operations, for tests anywhere.

The contract of each is that of its namesake in truerank.engine.cuda.filter_kernels.
"""

from __future__ import annotations

from typing import Any

import torch

from truerank.engine.cuda import torch_kernels
from truerank.engine.cuda.splitting import Splitting

__all__ = [
    "compare",
    "count_fine",
    "fine_products",
    "half_products",
    "list_near",
    "near_products",
    "part_of",
    "refine",
    "room_for_products",
    "settle",
]


def room_for_products(queries: int, items: int, device: Any) -> Any:
    """An empty matrix for half_products."""
    return torch.empty((queries, items), dtype=torch.float32, device=device)


def half_products(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
    """Products of half-precision rows."""
    out[:queries, :items] = left[:queries].float() @ right[:items].float().T


def part_of(parts: Any, products: Any) -> int:
    """The items of a part, from the room for both."""
    return int(products.shape[1]) // int(parts.shape[1])


def near_products(
    left: Any,
    right: Any,
    limit: Any,
    size: tuple[int, int],
    count: Any,
    parts: Any,
    products: Any,
) -> None:
    """Products of half-precision rows, of each few items of which one reaches a query's limit."""
    seen = _in_parts(left, right, size, part_of(parts, products), half_products)
    _keep_parts(seen, seen.amax(2) >= limit[:, None], count, parts, products)


def count_fine(
    left: Any,
    right: Any,
    sure: Any,
    lost: Any,
    size: tuple[int, int],
    less: Any,
    count: Any,
    parts: Any,
    products: Any,
) -> None:
    """Count the items above each sure[q, j]; parts with items between lost and sure are kept."""
    seen = _in_parts(left, right, size, part_of(parts, products), fine_products)
    doubtful = torch.zeros(seen.shape[:2], dtype=torch.bool, device=seen.device)
    for j in range(sure.shape[1]):
        above = seen > sure[:, j, None, None]
        doubtful |= (~above & (seen >= lost[:, j, None, None])).any(2)
        less[:, j] += above.sum((1, 2))
    _keep_parts(seen, doubtful, count, parts, products)


def fine_products(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
    """Products of rows of three parts."""
    out[:queries, :items] = (left[:queries].double() @ right[:items].double().T).float()


def _in_parts(left: Any, right: Any, size: tuple[int, int], part: int, multiply: Any) -> Any:
    """(queries, parts, items of a part): all products, padded with -inf."""
    wide = -(-size[1] // part) * part
    seen = torch.full((size[0], wide), -torch.inf, device=left.device)
    multiply(left, right, *size, seen)
    return seen.view(size[0], -1, part)


def _keep_parts(seen: Any, near: Any, count: Any, parts: Any, products: Any) -> None:
    """Keep the near parts, and list them."""
    query, part = torch.nonzero(near, as_tuple=True)
    number, place = _places(query, len(seen))
    parts[query, place] = part.to(parts.dtype)
    products.view(len(seen), -1, seen.shape[2])[query, part] = seen[query, part]
    count.copy_(number)


def compare(
    sure: Any,
    lost: Any,
    near: tuple[Any, Any, Any],
    items: int,
    less: Any,
    bins: Any,
    found: Any,
    entries: Any,
    *,
    counted: bool = False,
) -> None:
    """Count the items of near parts at few thresholds; the open ones go to `entries`."""
    m, room = sure.shape[1], entries.shape[1]
    number, parts, products = near
    queries, places = parts.shape
    place = parts.long() * (torch.arange(places, device=parts.device) < number[:, None])
    seen = products.view(queries, places, -1)
    seen = torch.gather(seen, 1, place[:, :, None].expand(-1, -1, seen.shape[2]))
    inside = torch.arange(seen.shape[2], device=parts.device)
    item = place[:, :, None] * seen.shape[2] + inside
    there = torch.arange(places, device=parts.device) < number[:, None]
    held = there[:, :, None] & (item < items)
    query, part, column = torch.nonzero(held & (seen >= lost[:, -1, None, None]), as_tuple=True)
    product, item = seen[query, part, column], item[query, part, column]
    above = product[:, None] > sure[query]
    if not counted:
        less.index_add_(0, query, above.to(less.dtype))
    low = m - above.sum(1)
    reached = (product[:, None] >= lost[query]).sum(1)
    is_open = reached > m - low
    wrong = is_open & (low < m)
    bins.index_put_((query[wrong], low[wrong]), -torch.ones_like(bins[:1, 0]), accumulate=True)
    query, item = query[is_open], item[is_open]
    count, place = _places(query, len(sure))
    place += found[query]
    fits = place < room
    entries[query[fits], place[fits]] = item[fits].to(entries.dtype)
    found += count.to(found.dtype)


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
