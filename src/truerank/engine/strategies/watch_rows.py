"""Watched rows: whole rows that an audience sees with their tie groups, or without any."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache

import numpy as np

from truerank.core.folds import Shares
from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.schedule import WorkItem
from truerank.engine.sight import Apart, Sight
from truerank.engine.strategies.rows_ahead import check_pairs, rows_ahead, whole_rows
from truerank.engine.threads import Tile, Workspace, show_all
from truerank.engine.watch import Audience, PerThread
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["ShowRows", "WatchRows"]


class WatchRows:
    """See Strategy. Few relevant items, or none, and watchers that look at whole rows."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        audience = context.audience
        held = PerThread(Workspace)

        def count(rows: Rows, _: Workspace) -> Block:
            """Tie groups of watched rows do not lie in the workspace: a thread needs only one."""
            return _count_rows(space, rows, view, tiles, held.mine(), audience, item.shares)

        yield from rows_ahead(item, context, count)


class ShowRows:
    """The same without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        audience, compiled = context.audience, item.compiled

        def look(rows: Rows, workspace: Workspace) -> None:
            apart = Apart.of(view.exclusions.pairs(rows, view.items))
            distances = whole_rows(space, rows, tiles, workspace)
            audience.look(Sight(rows, distances, compiled), apart)

        show_all(item.blocks, context.request.threads, look)
        yield from ()


def _count_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    workspace: Workspace,
    audience: Audience,
    shares: Shares | None,
) -> Block:
    distances = whole_rows(space, rows, tiles, workspace)
    pairs = view.block(rows)
    relevant, excluded = pairs.relevant, pairs.excluded
    mates = distances[relevant.query, relevant.item]
    held, one = np.unique(relevant.query, return_index=True)
    check_pairs(space, rows[held], relevant.item[one], mates[one])
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
