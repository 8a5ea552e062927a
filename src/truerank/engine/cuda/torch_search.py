"""The search's kernels in plain torch operations: for tests anywhere, and for long lists.

The contract of each is that of its namesake in truerank.engine.cuda.search_kernels.
"""

from __future__ import annotations

from typing import Any

import torch

from truerank.engine.cuda import torch_filter, torch_kernels

__all__ = [
    "MISSED",
    "PART",
    "choose",
    "half_products",
    "limits",
    "measure",
    "near_parts",
    "order",
    "room_for_products",
    "write_down",
]

PART = 32
"""Items whose products are kept together, if one of them is near."""
MISSED = 1 << 30
"""What is added to the number of items written down if others should have been."""
half_products, room_for_products = torch_filter.half_products, torch_filter.room_for_products


def near_parts(
    left: Any,
    right: Any,
    shift: Any,
    limit: Any,
    size: tuple[int, int],
    count: Any,
    parts: Any,
    products: Any,
) -> None:
    """Products of half-precision rows, of each PART items of which one reaches a query's limit."""
    queries, items = size
    wide = -(-items // PART) * PART
    seen = torch.full((queries, wide), -torch.inf, device=left.device)
    torch_filter.half_products(left, right, queries, items, seen)
    if shift is not None:
        seen[:, :items] -= shift
    seen = seen.view(queries, -1, PART)
    query, part = torch.nonzero(seen.amax(2) >= limit[:, None], as_tuple=True)
    number, place = _places(query, queries)
    held = place < parts.shape[1]
    query, part, place = query[held], part[held], place[held]
    parts[query, place] = part.to(parts.dtype)
    products.view(queries, -1, PART)[query, place] = seen[query, part]
    count += number.to(count.dtype)


def write_down(
    near: Any, parts: Any, products: Any, limit: Any, items: int, count: Any, entries: Any
) -> None:
    """Write down the items of near parts whose products reach their query's limit."""
    queries, room = parts.shape
    seen = products.view(queries, room, PART)
    held = torch.arange(room, device=near.device) < near[:, None]
    item = parts.long()[:, :, None] * PART + torch.arange(PART, device=near.device)
    reached = (seen >= limit[:, None, None]) & held[:, :, None] & (item < items)
    query, part, column = torch.nonzero(reached, as_tuple=True)
    number, place = _places(query, queries)
    bits = seen[query, part, column].view(torch.int32)
    both = torch.stack([bits, item[query, part, column].to(torch.int32)], 1)
    fits = place < entries.shape[1]
    entries[query[fits], place[fits]] = both[fits].view(torch.int64).flatten()
    count.copy_(number + MISSED * (near > room))


def limits(
    products: Any, shift: Any, size: tuple[int, int], rank: int, steps: int, limit: Any
) -> None:
    """For each query a product that at least `rank` of its row reach: the one at this place."""
    seen = products[: size[0], : size[1]]
    if shift is not None:
        seen = seen - shift
    limit.copy_(torch.topk(seen, rank, dim=1, sorted=False).values.min(1).values)


def choose(
    entries: Any,
    count: Any,
    limit: Any,
    margin: Any,
    k: int,
    steps: int,
    cut: Any,
    number: Any,
    chosen: Any,
) -> None:
    """Of the items written down, those whose products are within `margin` of the k-th."""
    room = entries.shape[1]
    written = count % MISSED
    places = torch.arange(min(room, int(written.max())), device=entries.device)
    both = entries.view(torch.int32)
    product, item = both[:, : 2 * len(places) : 2], both[:, 1 : 2 * len(places) : 2]
    product = torch.where(places < written[:, None], product.view(torch.float32), -torch.inf)
    low, high = limit, product.amax(1) if len(places) else limit
    for _ in range(steps):
        middle = (low + high) / 2
        enough = (product >= middle[:, None]).sum(1) >= k
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    wide = low.double()
    cut.copy_(wide - margin - wide.abs() * 2.0**-40)
    good = (count >= k) & (count <= room) & (cut >= limit.double())
    query, place = torch.nonzero((product.double() >= cut[:, None]) & good[:, None], as_tuple=True)
    several, at = _places(query, len(count))
    number.copy_(several)
    chosen[query, at] = item[query, place]


def measure(
    left: tuple[Any, Any, Any],
    right: tuple[Any, Any, Any],
    mode: str,
    number: Any,
    chosen: Any,
    out: Any,
) -> None:
    """Exact distances of the chosen items."""
    places = torch.arange(chosen.shape[1], device=number.device)
    query, place = torch.nonzero(places < number[:, None], as_tuple=True)
    item = chosen[query, place].long()
    product = torch_kernels.pair_products(left[0], right[0], query, item)
    if left[2] is not None:
        product = product * left[2][query] * right[2][item]
    out[query, place] = torch_kernels.distances(product, left[1][query], right[1][item], mode)


def order(number: Any, most: int, chosen: Any, distances: Any, out: tuple[Any, Any, Any]) -> None:
    """The k nearest of the chosen items, by distance and then by number."""
    listed = torch.nonzero(number).flatten()
    k = out[0].shape[1]
    held = torch.arange(most, device=number.device) < number[listed, None]
    distance = torch.where(held, distances[listed, :most], torch.inf)
    distance, place = torch.sort(distance, dim=1)
    item = torch.gather(chosen[listed, :most].long(), 1, place)
    same = (distance[:, 1:] == distance[:, :-1]) & (item[:, 1:] < item[:, :-1])
    mixed = torch.nonzero((same & (distance[:, 1:] < torch.inf)).any(1)).flatten()
    if len(mixed):  # items that tie go by their numbers
        some, place = torch.sort(item[mixed], dim=1)
        far, again = torch.sort(torch.gather(distance[mixed], 1, place), dim=1, stable=True)
        distance[mixed], item[mixed] = far, torch.gather(some, 1, again)
    out[0][listed], out[1][listed] = distance[:, :k], item[:, :k]
    out[2][listed] = (distance == distance[:, k - 1 : k]).sum(1)


def _places(query: Any, queries: int) -> tuple[Any, Any]:
    """How often each query comes in a sorted list, and the number of each entry among its own."""
    count = torch.bincount(query, minlength=queries)
    first = torch.cumsum(count, 0) - count
    return count, torch.arange(len(query), device=query.device) - first[query]
