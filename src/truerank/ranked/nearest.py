"""The k nearest items of queries, exactly, from tiles of distances; parts of a gallery add up.

Items at one distance come in the order of their numbers. How many items lie exactly at the last
distance is counted, whether they are listed or not: nothing but their number tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank.jit import kernel
from truerank.settings import current_settings
from truerank.space import Distances, Rows, Space

__all__ = ["Nearest", "nearest", "nearest_by_gpu", "nearest_on_gpus", "nearest_part"]

SPARE = 1 << 10
"""Least room for items that are met before a list is sorted again."""


@dataclass(frozen=True)
class Nearest:
    """The nearest items of a block of queries, nearest first."""

    distance: Distances
    """(queries, places): in the space's own numbers."""
    item: Rows
    """(queries, places)."""
    tied: Rows
    """(queries,): the items at the distance of the last place, listed or not."""

    @staticmethod
    def merged(parts: Sequence[Nearest], k: int) -> Nearest:
        """The k nearest of several parts of a gallery, each with its own k nearest or all it has.

        A part that leaves items out has its last distance no nearer than that of all: what it left
        out counts only where the two are equal.
        """
        distance = np.concatenate([part.distance for part in parts], axis=1)
        item = np.concatenate([part.item for part in parts], axis=1)
        order = np.lexsort((item, distance), axis=1)[:, :k]
        distance, item = (np.take_along_axis(array, order, axis=1) for array in (distance, item))
        last = distance[:, -1]
        tied = np.zeros(len(last), np.int64)
        for part in parts:
            listed = (part.distance == last[:, None]).sum(axis=1)
            tied += np.where(part.distance[:, -1] == last, part.tied, listed)
        return Nearest(distance, item, tied)

    def first_places(self) -> Rows:
        """(queries, places): the first place at the distance of each place."""
        queries, places = self.distance.shape
        found: Rows = np.tile(np.arange(places), (queries, 1))
        same = self.distance[:, 1:] == self.distance[:, :-1]
        tied = np.flatnonzero(same.any(axis=1))  # few rows, if any
        first = found[tied]
        first[:, 1:][same[tied]] = 0
        found[tied] = np.maximum.accumulate(first, axis=1)
        return found


def nearest(space: Space, rows: Rows, items: tuple[int, int], k: int, width: int) -> Nearest:
    """The k nearest of a range of items, or all of them where these are fewer."""
    k = min(k, items[1] - items[0])
    room = k + max(k, SPARE)
    distance = np.full((len(rows), room), np.inf)
    item = np.zeros((len(rows), room), np.int64)
    count = np.zeros(len(rows), np.int64)
    last = np.full(len(rows), np.inf)
    beyond = np.zeros(len(rows), np.int64)
    tile = space.block(rows)
    for start in range(*items, width):
        near = tile(start, min(start + width, items[1]))
        take(near, start, k, distance, item, count, last, beyond)
    for row in range(len(rows)):
        shorten(row, k, distance, item, count, last, beyond)
    found = distance[:, :k].copy()
    within = (found == found[:, -1:]).sum(axis=1)
    return Nearest(found, item[:, :k].copy(), within + beyond)


def nearest_part(
    held: list[Any], rows: Rows, items: tuple[int, int], k: int, width: int
) -> Nearest:
    """A task of a cluster, which holds the space."""
    return nearest(held[0], rows, items, k, width)


def nearest_on_gpus(
    space: Space, blocks: Iterable[Rows], k: int, take: Callable[[Rows, Nearest], None]
) -> None:
    """The k nearest items of blocks of queries, by the GPUs of this machine."""
    from truerank.engine.cuda.search import Searches

    method = current_settings().method
    Searches(space).run(blocks, k, method, lambda rows, lists: take(rows, Nearest(*lists)))


def nearest_by_gpu(
    held: list[Any], rows: Rows, items: tuple[int, int], k: int, width: int
) -> Nearest:
    """A task of a cluster whose workers have a GPU each, which holds nothing for the next one."""
    found: list[Nearest] = []
    nearest_on_gpus(held[0], [rows], k, lambda rows, lists: found.append(lists))
    return found[0]


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
