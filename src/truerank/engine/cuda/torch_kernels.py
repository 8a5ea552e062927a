"""The Triton kernels in plain torch operations, for devices without Triton, tests, long lists.

Each function has the contract of its namesake in exact_kernels.py, filter_kernels.py or
search_kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from truerank.engine.cuda.counting import LISTS, PART, Near, Opened, Splitting

if TYPE_CHECKING:
    from truerank.engine.blocks import DistanceRange
    from truerank.engine.cuda.worker import DeviceCuts


# The exact kernels in plain torch operations: for devices without Triton, and for tests anywhere.
#
# The contract (edges, less, bins, equal) is that of truerank.engine.cuda.exact_kernels.


FUSED = False
ZERO = 2.0**51
"""The distance of orthogonal rows, in cosine's unit 2^-50."""
_NUMBERS = 1 << 24


def distances(product: Any, a: Any, b: Any, mode: str) -> Any:
    """Distances from exact products and norms; distance/inner_product.py says why they are
    exact, and distance/cosine.py and grid.py what is more."""
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


# The filter's kernels in plain torch operations, for tests anywhere.
#
# The contract of each is that of its namesake in truerank.engine.cuda.filter_kernels.


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
    product = pair_products(left, right, query, item)
    d = distances(product, a[query], b[item], mode)
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


# The search's kernels in plain torch operations: for tests anywhere, and for long lists.
#
# The contract of each is that of its namesake in truerank.engine.cuda.search_kernels.


SEARCH_PART = 32
"""Items whose products are kept together, if one of them is near."""
MISSED = 1 << 30
"""What is added to the number of items written down if others should have been."""


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
    wide = -(-items // SEARCH_PART) * SEARCH_PART
    seen = torch.full((queries, wide), -torch.inf, device=left.device)
    half_products(left, right, queries, items, seen)
    if shift is not None:
        seen[:, :items] -= shift
    seen = seen.view(queries, -1, SEARCH_PART)
    query, part = torch.nonzero(seen.amax(2) >= limit[:, None], as_tuple=True)
    number, place = _places(query, queries)
    held = place < parts.shape[1]
    query, part, place = query[held], part[held], place[held]
    parts[query, place] = part.to(parts.dtype)
    products.view(queries, -1, SEARCH_PART)[query, place] = seen[query, part]
    count += number.to(count.dtype)


def write_down(
    near: Any, parts: Any, products: Any, limit: Any, items: int, count: Any, entries: Any
) -> None:
    """Write down the items of near parts whose products reach their query's limit."""
    queries, room = parts.shape
    seen = products.view(queries, room, SEARCH_PART)
    held = torch.arange(room, device=near.device) < near[:, None]
    item = parts.long()[:, :, None] * SEARCH_PART + torch.arange(SEARCH_PART, device=near.device)
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
    product = pair_products(left[0], right[0], query, item)
    if left[2] is not None:
        product = product * left[2][query] * right[2][item]
    out[query, place] = distances(product, left[1][query], right[1][item], mode)


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
