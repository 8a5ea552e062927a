"""The CPU engine: BLAS tiles of distances turned into counts, in one of two ways.

Where a query has few relevant items, their distances are computed first, in integers, and every
tile is counted against them: memory is one tile for each thread plus the mates of the queries in
flight. Where it has many (the coarse levels of a hierarchy), looking each item up among them costs
more than sorting the row. The counts are the same integers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.engine import kernels
from truerank.engine.counts import (
    Block,
    Counts,
    LocatedGroups,
    Room,
    Shares,
    SplitGroups,
    TieGroups,
)
from truerank.engine.crew import Crew, Take, Tile
from truerank.engine.filter import Filter, Thresholds
from truerank.engine.sight import Apart, Sight
from truerank.engine.watch import Audience
from truerank.engine.workspace import Workspace
from truerank.errors import ExactnessError
from truerank.relevance import BlockPairs, View
from truerank.space import Distances, Rows, Space

__all__ = [
    "Workspace",
    "begin_counts",
    "count_block",
    "count_rows",
    "sort_rows",
    "split_rows",
    "whole_rows",
]

FILTER_ROWS = 512
"""Queries in a float32 tile: with some hundred items, it stays in a core's own cache."""


def begin_counts(
    space: Space,
    rows: Rows,
    view: View,
    shares: Shares | None = None,
    room: Room | None = None,
) -> tuple[Counts, Rows]:
    """The relevant distances of these queries, in integers, and how many items each can rank.

    Pairs that never meet will be met in the tiles: they are taken out beforehand.
    """
    pairs = view.block(rows)
    mates = space.pairs(rows[pairs.relevant.query], pairs.relevant.item)
    counts = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    excluded = pairs.excluded
    gone = space.pairs(rows[excluded.query], excluded.item)
    kernels.count_pairs(
        excluded.query,
        gone,
        -1,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    if shares is not None:
        counts.split_by(shares, rows, pairs, mates, gone, room)
    return counts, space.gallery - np.bincount(excluded.query, minlength=len(rows))


def count_block(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    crew: Crew,
    way: Filter | None = None,
    audience: Audience | None = None,
    shares: Shares | None = None,
) -> Block:
    """Few relevant items, or none: their distances first, then every tile counted against them."""
    total, candidates = begin_counts(space, rows, view, shares)
    excluded = view.exclusions.pairs(rows, view.items)
    if audience is not None:
        begin = _watched(space, rows, shares, audience, Apart.of(excluded))
    elif way is None:
        begin = _exactly(space, rows, shares)
    else:
        begin = _filtered(way, rows, total, tiles[0][1])

    def work(take: Take, finished: Callable[[Tile], None]) -> Counts:
        counts, add = total.empty_copy(), begin()
        while (tile := take()) is not None:
            add(counts, tile)
            finished(tile)
        return counts

    crew.complete(
        tiles,
        work,
        total.__iadd__,
        lambda tile: len(rows) * (tile[1] - tile[0]),
        f"block-{tiles[0][1]}-{total.digest()}",
        total.state(),
    )
    return total.block(rows, candidates, excluded, shares)


Add = Callable[[Counts, Tile], None]
Begin = Callable[[], Add]
"""What each thread calls once: what it adds tiles with is its own."""


def _exactly(space: Space, rows: Rows, shares: Shares | None) -> Begin:
    distances = space.block(rows)

    def add(counts: Counts, tile: Tile) -> None:
        counts.add_tile(distances(*tile), rows, tile, shares)

    return lambda: add


def _watched(
    space: Space, rows: Rows, shares: Shares | None, audience: Audience, apart: Apart
) -> Begin:
    distances = space.block(rows)

    def add(counts: Counts, tile: Tile) -> None:
        near = distances(*tile)
        counts.add_tile(near, rows, tile, shares)
        audience.look(Sight(rows, near, True, tile[0]), apart)

    return lambda: add


def _filtered(way: Filter, rows: Rows, frame: Counts, width: int) -> Begin:
    thresholds = Thresholds(frame, rows, way.single, way.shares)
    left = way.single.queries(rows)
    guard: AbstractContextManager[None] = nullcontext()  # each thread has counts of its own

    def begin() -> Add:
        buffers = way.buffers(FILTER_ROWS, width)

        def add(counts: Counts, tile: Tile) -> None:
            right = way.single.items(*tile, buffers.right)
            for first in range(0, len(rows), FILTER_ROWS):
                last = min(first + FILTER_ROWS, len(rows))
                if way.pays:
                    scores = buffers.product(left[first:last], right)
                    way.add(scores, thresholds, counts, first, tile[0], buffers, guard)
                else:
                    way.add_exact(rows, counts, first, last, *tile, guard)

        return add

    return begin


def whole_rows(space: Space, rows: Rows, tiles: list[Tile], workspace: Workspace) -> Distances:
    """These queries against the whole gallery, in the workspace."""
    tile = space.block(rows)
    distances = workspace.take("distances", (len(rows), space.gallery), np.float64)
    for start, stop in tiles:
        distances[:, start:stop] = tile(start, stop)
    return distances


def count_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    workspace: Workspace,
    audience: Audience,
    shares: Shares | None = None,
    apart: tuple[View, npt.NDArray[np.bool_]] | None = None,
) -> Block:
    """Few relevant items, or none, and watchers that look at whole rows.

    With `shares` the groups are split; `apart` is for rows that are sorted.
    """
    distances = whole_rows(space, rows, tiles, workspace)
    pairs = view.block(rows)
    relevant, excluded = pairs.relevant, pairs.excluded
    mates = distances[relevant.query, relevant.item]
    held, one = np.unique(relevant.query, return_index=True)
    _check_pairs(space, rows[held], relevant.item[one], mates[one])
    counts = Counts.frame(relevant.query, mates, pairs.grade, len(rows), view.grades)
    gone = np.bincount(excluded.query, minlength=len(rows))

    @cache
    def counted() -> Block:
        if shares is not None:
            counts.split_by(shares, rows, pairs, mates)
        counts.add_tile(distances, rows, (0, space.gallery), shares)
        return counts.block(rows, space.gallery - gone, excluded, shares)

    sight = Sight(rows, distances, True)
    audience.look_at_rows(sight, Apart.of(excluded), lambda: counted().groups)
    return counted()


def sort_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    workspace: Workspace,
    audience: Audience | None = None,
    shares: Shares | None = None,
    apart: tuple[View, npt.NDArray[np.bool_]] | None = None,
) -> Block:
    """Many relevant items: whole rows of distances, sorted once for all grades.

    The result lies in the workspace. With `shares`, the groups in the view `apart` are counted and
    split from the same distances, for the queries that go with it and have few mates there.
    """
    distances = whole_rows(space, rows, tiles, workspace)
    grade = view.grade_rows(rows)
    excluded = view.exclusions.pairs(rows, view.items)
    grade[excluded.query, excluded.item] = 0
    # One mate of each query again, in integers: all of them would cost more than the product.
    last = grade.shape[1] - 1 - np.argmax(grade[:, ::-1] > 0, axis=1)
    _check_pairs(space, rows, last, distances[np.arange(len(rows)), last])
    distances[excluded.query, excluded.item] = np.inf  # behind everything, and not ranked
    split = SplitGroups.none()
    if shares is not None and apart is not None:
        some = np.flatnonzero(apart[1][rows] & (apart[0].mates[rows] > 0))
        whole = distances if len(some) == len(rows) else distances[some]
        if len(some):
            pairs = apart[0].block(rows[some])
            few = _split(space, rows[some], whole, apart[0], pairs, shares).split
            split = replace(few, queries=some)
    keys = workspace.take("keys", distances.shape, np.int64)
    if space.integral:
        kernels.pack(distances, grade, keys)
        keys.sort(axis=1)
    else:
        kernels.rank_grades(distances, np.argsort(distances, axis=1), grade, keys)
    most = view.mates[rows]
    first = np.cumsum(most) - most
    count = np.zeros(len(rows), np.int64)
    groups = int(most.sum()) + 1
    before = workspace.take("before", (groups,), np.int64)
    size = workspace.take("size", (groups,), np.int64)
    graded = workspace.take("graded", (groups, view.grades), np.int32)
    kernels.walk(keys, first, count, before, size, graded)
    gone = np.bincount(excluded.query, minlength=len(rows))
    offsets = np.concatenate([[0], np.cumsum(count)])
    kept: Any = slice(offsets[-1])
    if offsets[-1] < groups - 1:  # some relevant items tie with each other
        owner = np.repeat(np.arange(len(rows)), count)
        kept = first[owner] + np.arange(offsets[-1]) - offsets[owner]
    before, size, graded = before[kept], size[kept], graded[kept]
    ranked = TieGroups(offsets, before, size, graded, space.gallery - gone)
    if audience is None:
        return Block(rows, ranked, split)
    owner = np.repeat(np.arange(len(rows)), count)
    if space.integral:
        distance = (keys[owner, before] >> kernels.GRADE_BITS).astype(np.float64)
    else:
        distance = np.sort(distances, axis=1)[owner, before]
    located = LocatedGroups(offsets, before, size, graded, space.gallery - gone, distance)
    audience.look_at_rows(Sight(rows, distances, True), Apart.of(excluded), lambda: located)
    return Block(rows, located, split)


def split_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    workspace: Workspace,
    audience: Audience | None,
    shares: Shares,
    apart: tuple[View, npt.NDArray[np.bool_]] | None = None,
) -> Block:
    """Many relevant items whose groups are split: whole rows, since a thread's own split counts of
    all queries would take far more memory than distances. Nobody watches, nothing is apart."""
    distances = whole_rows(space, rows, tiles, workspace)
    pairs = view.block(rows)
    held, one = np.unique(pairs.relevant.query, return_index=True)
    mate = pairs.relevant.item[one]
    _check_pairs(space, rows[held], mate, distances[held, mate])
    distances[pairs.excluded.query, pairs.excluded.item] = np.inf
    return _split(space, rows, distances, view, pairs, shares)


def _split(
    space: Space,
    rows: Rows,
    distances: Distances,
    view: View,
    pairs: BlockPairs,
    shares: Shares,
) -> Block:
    """Whole rows of distances, excluded items at infinity, counted by share in this view."""
    mates = distances[pairs.relevant.query, pairs.relevant.item]
    counts = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    counts.split_by(shares, rows, pairs, mates)
    counts.add_tile(distances, rows, (0, space.gallery), shares)
    gone = np.bincount(pairs.excluded.query, minlength=len(rows))
    return counts.block(rows, space.gallery - gone, pairs.excluded, shares)


def _check_pairs(space: Space, query: Rows, item: Rows, distances: Distances) -> None:
    if not np.array_equal(distances, space.pairs(query, item)):
        raise ExactnessError(
            "a distance differs from integer arithmetic: the matrix product of this machine is not "
            "exact in float64; use another BLAS or device='reference'."
        )
