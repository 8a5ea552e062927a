"""The filter's kernels in plain torch operations, for tests anywhere.

The contract of each is that of its namesake in truerank.engine.cuda.filter_kernels.
"""

from __future__ import annotations

from typing import Any

import torch

from truerank.engine.cuda import torch_kernels
from truerank.engine.cuda.near import LISTS, PART, Near, Opened
from truerank.engine.cuda.splitting import Splitting

__all__ = [
    "compare",
    "count_fine",
    "fine_products",
    "half_products",
    "near_products",
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


def near_products(
    left: Any,
    right: Any,
    size: tuple[int, int],
    limit: Any,
    near: Near,
    item_limit: Any = None,
    item_near: Near | None = None,
) -> None:
    """Products of half-precision rows, of each few items of which one reaches a query's limit."""
    products = torch.empty(size, device=left.device)
    half_products(left, right, *size, products)
    _keep_near(products, limit, near)
    if item_near is not None:
        _keep_near(products.T, item_limit, item_near)


def _keep_near(products: Any, limit: Any, near: Near) -> None:
    seen = _in_parts(products)
    _keep_parts(seen, seen.amax(2) >= limit[:, None], near)


def count_fine(
    left: Any,
    right: Any,
    size: tuple[int, int],
    sure: Any,
    lost: Any,
    less: Any,
    near: Near,
) -> None:
    """Count the items above each sure[q, j]; parts with items between lost and sure are kept."""
    products = torch.empty(size, device=left.device)
    fine_products(left, right, *size, products)
    seen = _in_parts(products)
    doubtful = torch.zeros(seen.shape[:2], dtype=torch.bool, device=seen.device)
    for j in range(sure.shape[1]):
        above = seen > sure[:, j, None, None]
        doubtful |= (~above & (seen >= lost[:, j, None, None])).any(2)
        less[:, j] += above.sum((1, 2))
    _keep_parts(seen, doubtful, near)


def fine_products(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
    """Products of rows of three parts."""
    out[:queries, :items] = (left[:queries].double() @ right[:items].double().T).float()


def _in_parts(products: Any) -> Any:
    """(queries, parts, items of a part): all products, padded with -inf."""
    missing = -products.shape[1] % PART
    padded = torch.nn.functional.pad(products, (0, missing), value=-torch.inf)
    return padded.view(len(products), -1, PART)


def _keep_parts(seen: Any, is_near: Any, near: Near) -> None:
    """Keep the near parts, and list them."""
    query, part = torch.nonzero(is_near, as_tuple=True)
    number, place = _places(query, len(seen))
    near.parts[query, place] = part.to(near.parts.dtype)
    near.products.view(len(near.products), -1, PART)[query, part] = seen[query, part]
    near.number[: len(seen)] = number


def compare(
    sure: Any,
    lost: Any,
    near: Near,
    items: int,
    less: Any,
    opened: Opened,
    *,
    counted: bool = False,
) -> None:
    """Count the items of near parts at few thresholds; the open ones are listed."""
    query, item, product = _kept(near, items, lost[:, -1])
    above = product[:, None] > sure[query]
    is_open = (above != (product[:, None] >= lost[query])).any(1)
    mine = is_open if counted else ~is_open
    less.index_add_(0, query[mine], above[mine].to(less.dtype), alpha=-1 if counted else 1)
    _list(opened, query[is_open], item[is_open])


def _list(opened: Opened, query: Any, item: Any) -> None:
    """List open items, which are sorted by query: lists are filled one after the other."""
    room = opened.entries.shape[1]
    number, place = _places(query, len(opened.found) // LISTS)
    taken = torch.arange(LISTS, device=query.device) * room
    found = (number[:, None] - taken).clamp(min=0)
    found[:, :-1] = found[:, :-1].clamp(max=room)
    opened.found.copy_(found.flatten())
    fits = place < LISTS * room
    entries = opened.entries.view(-1, LISTS * room)
    entries[query[fits], place[fits]] = item[fits].to(entries.dtype)


def settle(
    sure: Any,
    lost: Any,
    near: Near,
    items: int,
    bins: Any,
    opened: Opened,
    split: Splitting | None,
) -> None:
    """Count the items of near parts among any number of thresholds; the open ones are listed."""
    m = sure.shape[1]
    query, item, product = _kept(near, items, lost[:, -1])
    low = (sure[query] >= product[:, None]).sum(1)
    before = torch.gather(lost[query], 1, (low - 1).clamp(min=0)[:, None])[:, 0]
    is_open = (product >= before) & (low > 0)
    counts = ~is_open & (low < m)
    _add(bins, (query[counts], low[counts]))
    _by_fold(split, query, low, item, counts, None)
    _list(opened, query[is_open], item[is_open])


def _kept(near: Near, items: int, last: Any) -> tuple[Any, Any, Any]:
    """Query, item and product of what near parts hold within each query's farthest mate."""
    there = torch.arange(near.places, device=last.device) < near.number[: len(last), None]
    query, place = torch.nonzero(there, as_tuple=True)
    part = near.parts[query, place].long()
    product = near.products.view(len(near.products), -1, PART)[query, part].flatten()
    item = (part[:, None] * PART + torch.arange(PART, device=last.device)).flatten()
    query = query.repeat_interleave(PART)
    held = (item < items) & (product >= last[query])
    return query[held], item[held], product[held]


def refine(
    left: Any,
    right: Any,
    a: Any,
    b: Any,
    mode: str,
    edges: Any,
    opened: Opened,
    bins: Any,
    equal: Any,
    split: Splitting | None,
) -> None:
    """Decide the open pairs by exact products of integer rows."""
    room = opened.entries.shape[1]
    number = torch.where(opened.found > room, 0, opened.found)
    held = torch.arange(room, device=number.device) < number[:, None]
    mine, column = torch.nonzero(held, as_tuple=True)
    query, item = mine // LISTS, opened.entries[mine, column].long()
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
