"""Kernels of bands and of the ranks of first items: sums over points and jackknife groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel
from truerank.core.tie_group_kernels import first_ranks, mates_left


@kernel
def _sum_rows(values: Any, total: Any, lost: Any) -> None:
    """The same, number by number."""
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            value = values[row, column]
            more = total[column] + value
            if abs(total[column]) >= abs(value):
                lost[column] += (total[column] - more) + value
            else:
                lost[column] += (value - more) + total[column]
            total[column] = more


@kernel
def _first_beyond(ranks: Any, ladder: Any, places: Any, left: Any, room: Any, out: Any) -> None:
    """The first of some places of the ladder at which each rank is among the first that lie beyond
    it, as many as there is room for; out stays -1 where it is at none.

    `left` are the places of those that may lie beyond it, all at first.
    """
    number = left.size
    for place in places:
        found = 0
        for at in range(number):
            if ranks[left[at]] > ladder[place]:
                room[found] = left[at]
                found += 1
                if found == room.size:
                    break
        for at in range(found):
            if out[room[at]] < 0:
                out[room[at]] = place
        if found < room.size:  # they are all that do, and others lie beyond no higher one
            number = found
            for at in range(found):
                left[at] = room[at]


@kernel
def _first_ranks(left: Any, wanted: Any, out: Any) -> None:
    """The ranks of some queries' first mates without each fold, NONE_LEFT where there is none."""
    mates, missing = np.empty(out.shape[1], np.int32), np.empty(out.shape[1], np.int32)
    for place in range(wanted.size):
        mates_left(left, wanted[place], mates)
        first_ranks(left, wanted[place], mates, missing, out[place])


@kernel
def _add(
    before: Any,
    places: Any,
    without: Any,
    mine: Any,
    ladder: Any,
    since: Any,
    shared: Any,
    away: Any,
    steps: Any,
) -> None:
    """Count a query at all ranks of the ladder from its first mate's new one up to its old one.

    `before` are the old ranks, and `places` where they stand on the ladder. A query misses from
    `since` up to its old rank without nearly every fold: that is `shared`, and `away` takes it back
    for the column that it leaves with and those that take all its mates.
    """
    for query in range(before.size):
        was = before[query]
        if was == 0:  # without a mate in any case
            continue
        from_on = since[query]
        old = places[query]
        shared[0] += 1
        shared[1 + from_on] += 1
        shared[1 + old] -= 1
        ranks = without[query]
        ranks[mine[query]] = 0
        for column in range(ranks.size):
            now = ranks[column]
            if now >= was:
                continue
            if now == 0:
                away[column, 0] += 1
                away[column, 1 + from_on] += 1
                away[column, 1 + old] -= 1
                continue
            new = old
            while new > from_on and ladder[new - 1] >= now:  # mostly next to the old one
                new -= 1
            if new < old:
                steps[column, new] += 1
                steps[column, old] -= 1


@kernel
def _move(
    found: Any,
    every: Any,
    left: Any,
    shared: Any,
    away: Any,
    steps: Any,
    by_rank: bool,
    moved: Any,
    noise: Any,
) -> None:
    """See RankChanges.move; `every` are the queries that are found up to each place."""
    last = every.size - 1
    for column in range(left.size):
        mine = np.int64(0)
        for place in range(every.size):
            mine += found[column, place]
        staying = shared[0, 0] - away[0, column, 0]
        here = missing = gained = np.int64(0)
        for rank in range(last):
            here += found[column, rank]
            missing += shared[0, 1 + rank] - away[0, column, 1 + rank]
            missing += shared[1, 1 + rank] - away[1, column, 1 + rank]
            gained += steps[column, rank]
            counted = missing if by_rank else staying
            others = every[last] - mine
            if by_rank:
                others -= every[rank] - here
            whole = max(counted, 1)
            share = others / left[column]
            centre = gained / whole
            around = max(gained - centre * (2 * gained - centre * counted), 0.0)
            unseen = min(max(1.0 - counted / max(others, 1), 0.0), 1.0)
            variance = unseen * counted / max(counted - 1, 1) * around / (whole * whole)
            moved[column, rank] += share * centre
            noise[column, rank] += share * share * variance
