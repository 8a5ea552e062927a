"""The reference engine: pure numpy, a sort for every query. It is slow, and it defines the truth.

It also runs where numba is missing.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from truerank.core.folds import Shares
from truerank.core.groups import Block, LocatedGroups, SplitGroups
from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem
from truerank.engine.sight import Apart, Sight
from truerank.engine.watch import Audience
from truerank.relevance import BlockPairs
from truerank.space import Rows, Space

__all__ = ["Reference"]


class Reference:
    """See Strategy."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, audience = context.request.view, context.space(item), context.request.audience
        for rows in item.blocks:
            found = _count_block(space, rows, view.block(rows), view.grades, audience, item.shares)
            if context.has_mates(rows):
                yield found
            context.saw(rows)


def _count_block(
    space: Space,
    rows: Rows,
    pairs: BlockPairs,
    grades: int,
    audience: Audience | None,
    shares: Shares | None,
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
        if shares is not None and shares.queries[query]:
            split.append(_by_share(row, worth, is_excluded, at, grades, shares))
        elif shares is not None:
            split.append(np.zeros((2 + grades, len(at), shares.columns), shares.dtype))
    groups = LocatedGroups(
        np.array(offsets),
        np.concatenate(before),
        np.concatenate(size),
        np.concatenate(inside),
        (~excluded).sum(axis=1),
        np.concatenate(distance),
    )
    if audience is not None:
        sight = Sight(rows, distances, False)
        audience.look_at_rows(sight, Apart.of(pairs.excluded), lambda: groups)
    if shares is None:
        return Block(rows, groups, SplitGroups.none())
    counts, met = (
        np.concatenate(split, axis=1),
        shares.candidates(len(rows), (pairs.excluded.query, pairs.excluded.item)),
    )
    everybody = np.arange(len(rows))
    return Block(rows, groups, SplitGroups(everybody, groups, counts, shares.queries[rows], met))


def _by_share(
    row: np.ndarray,
    worth: np.ndarray,
    excluded: np.ndarray,
    at: np.ndarray,
    grades: int,
    shares: Shares,
) -> np.ndarray:
    """What Split holds of one query: a sort for every share."""
    out: np.ndarray = np.zeros((2 + grades, len(at), shares.columns), shares.dtype)
    for way in shares.item.T:
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
