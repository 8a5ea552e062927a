"""Kernels of open-set identification: chance, smaller galleries, sums per jackknife group."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel


@kernel
def _race(candidates: float, impostors: int, allowed: int, out: Any) -> None:
    """Run the race of _in_time; each impostor has as many candidates as the target."""
    ahead = np.zeros(allowed + 1)  # impostors accepted when the latest candidate came
    ahead[0] = 1.0
    for number in range(out.size):
        waiting = candidates - number
        total = 0.0
        carried = 0.0
        for accepted in range(allowed + 1):
            carried += ahead[accepted]
            rivals = (impostors - accepted) * candidates
            ours = waiting / (waiting + rivals)
            ahead[accepted] = carried * ours
            carried -= ahead[accepted]
            total += ahead[accepted]
        out[number] = total


@kernel
def _accept(
    nearest: Any,
    farther: Any,
    which: Any,
    hits: Any,
    limit: float,
    weight: Any,
    query: Any,
    found: Any,
    stay: Any,
) -> None:
    """Weights of the queries that stay without each fold, and of those that are accepted and hit.

    `hits` has a column for each fold, or one for all; `query` are the columns of the query itself.
    """
    last = hits.shape[1] - 1
    for q in range(weight.size):
        if weight[q] == 0:
            continue
        for column in range(found.size):
            away = False
            for way in range(query.shape[1]):
                away |= query[q, way] == column
            if away:
                continue
            stay[column] += weight[q]
            d = farther[q] if which[q] == column else nearest[q]
            if d <= limit and hits[q, min(column, last)]:
                found[column] += weight[q]


@kernel
def _missed(others: Any, drawn: Any, near: Any, out: Any) -> None:
    """C(M - a, m) / C(M, m), by the shorter of its two products."""
    for q in range(out.size):
        steps = min(near[q], drawn[q])
        rest = max(near[q], drawn[q])
        value = 1.0
        for i in range(steps):
            left = others[q] - rest - i
            value *= max(float(left), 0.0) / float(others[q] - i)
            if value < 1e-25:  # nobody could see the difference
                value = 0.0
                break
        out[q] = value


@kernel
def _mark(count: Any, lost: Any, own: Any, used: Any) -> None:
    """Which numbers of items occur without any fold that a query stays without."""
    for q in range(count.size):
        for column in range(lost.shape[1]):
            stays = True
            for way in range(own.shape[1]):
                stays &= own[q, way] != column
            if stays:
                used[count[q] - lost[q, column]] = True


@kernel
def _add(count: Any, lost: Any, own: Any, weight: Any, table: Any, sums: Any) -> None:
    """Add the weighted values of queries that stay to the sums of each fold."""
    for q in range(count.size):
        for column in range(lost.shape[1]):
            stays = True
            for way in range(own.shape[1]):
                stays &= own[q, way] != column
            if stays:
                value = weight[q] * table[count[q] - lost[q, column]]
                sums[column] += int(np.rint(value))
