"""Kernels of the nearest neighbor search: take in a tile of distances, keep the k nearest."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel


@kernel
def shorten(row: int, k: int, distance: Any, item: Any, count: Any, last: Any, beyond: Any) -> None:
    """Sort what a query has met, and keep its k nearest; items were met in ascending order."""
    met = count[row]
    order = np.argsort(distance[row, :met], kind="mergesort")
    distance[row, :met] = distance[row, :met][order]
    item[row, :met] = item[row, :met][order]
    if met < k:
        return
    end = distance[row, k - 1]
    left_out = 0
    for place in range(k, met):
        left_out += 1 if distance[row, place] == end else 0
    beyond[row] = left_out + (beyond[row] if end == last[row] else 0)
    last[row] = end
    count[row] = k


@kernel
def take(
    near: Any,
    start: int,
    k: int,
    distance: Any,
    item: Any,
    count: Any,
    last: Any,
    beyond: Any,
) -> None:
    """Take in a tile. What is as far as the k-th so far comes behind it, and is only counted."""
    for row in range(near.shape[0]):
        for column in range(near.shape[1]):
            value = near[row, column]
            if value < last[row]:
                at = count[row]
                distance[row, at] = value
                item[row, at] = start + column
                count[row] = at + 1
                if at + 1 == distance.shape[1]:
                    shorten(row, k, distance, item, count, last, beyond)
            elif value == last[row]:
                beyond[row] += 1
