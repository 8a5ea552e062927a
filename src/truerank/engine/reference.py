"""Reference engine in plain numpy: one sort per query, slow, the definition of the result.

It also runs where numba is not installed.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block, LocatedGroups, SplitGroups
from truerank.distance.base import Rows, Space
from truerank.engine.blocks import DistanceBlock, ExcludedPairs
from truerank.engine.reducers import Observers
from truerank.engine.schedule import PassContext, WorkItem
from truerank.task.relevance import BlockPairs


class Reference:
    """Whole rows in plain numpy: the definition of the truth."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, observers = (
            context.request.view,
            context.space(item),
            context.request.observers,
        )
        for rows in item.blocks:
            found = _count_block(space, rows, view.block(rows), view.grades, observers, item.folds)
            if context.has_mates(rows):
                yield found
            context.advance(rows)


def _count_block(
    space: Space,
    rows: Rows,
    pairs: BlockPairs,
    grades: int,
    observers: Observers | None,
    folds: GalleryFolds | None,
) -> Block:
    """Tie groups of these queries from fully sorted rows of distances."""
    distances = space.block(rows)(0, space.gallery)
    excluded = np.zeros(distances.shape, bool)
    excluded[pairs.excluded.query, pairs.excluded.item] = True
    grade = np.zeros(distances.shape, np.int64)
    grade[pairs.relevant.query, pairs.relevant.item] = pairs.grade
    offsets = [0]
    before: list[np.ndarray] = []
    size: list[np.ndarray] = []
    inside: list[np.ndarray] = []
    distance: list[np.ndarray] = []
    split: list[np.ndarray] = []
    for query, row, worth, is_excluded in zip(rows, distances, grade, excluded, strict=True):
        ranked = np.sort(row[~is_excluded])
        at = np.unique(row[worth > 0])
        first = np.searchsorted(ranked, at, side="left")
        before.append(first)
        size.append(np.searchsorted(ranked, at, side="right") - first)
        inside.append(
            np.array(
                [[((row == d) & (worth == g + 1)).sum() for g in range(grades)] for d in at],
                np.int32,
            ).reshape(-1, grades)
        )
        distance.append(at)
        offsets.append(offsets[-1] + len(at))
        if folds is not None and folds.queries[query]:
            split.append(_by_fold(row, worth, is_excluded, at, grades, folds))
    groups = LocatedGroups(
        np.array(offsets),
        np.concatenate(before),
        np.concatenate(size),
        np.concatenate(inside),
        (~excluded).sum(axis=1),
        np.concatenate(distance),
    )
    if observers is not None:
        block = DistanceBlock(rows, distances, False)
        observers.observe_rows_at_once(block, ExcludedPairs.of(pairs.excluded), lambda: groups)
    if folds is None:
        return Block(rows, groups, SplitGroups.none())
    none: np.ndarray = np.zeros((2 + grades, 0, folds.columns), folds.dtype)
    counts = np.concatenate([none, *split], axis=1)
    return Block(rows, groups, SplitGroups.of(rows, groups, counts, pairs.excluded, folds))


def _by_fold(
    row: np.ndarray,
    worth: np.ndarray,
    excluded: np.ndarray,
    at: np.ndarray,
    grades: int,
    folds: GalleryFolds,
) -> np.ndarray:
    """What SplitGroups holds of one query: a sort for every fold."""
    out: np.ndarray = np.zeros((2 + grades, len(at), folds.columns), folds.dtype)
    for way in folds.item.T:
        for column in np.unique(way):
            own = way == column
            ranked = np.sort(row[own & ~excluded])
            first = np.searchsorted(ranked, at, side="left")
            stop = np.searchsorted(ranked, at, side="right")
            out[0, :, column] = first - np.concatenate([[0], stop[:-1]])
            out[1, :, column] = stop - first
            for grade in range(grades):
                same = row[own & (worth == grade + 1)]
                out[2 + grade, :, column] = (same[None, :] == at[:, None]).sum(axis=1)
    return out
