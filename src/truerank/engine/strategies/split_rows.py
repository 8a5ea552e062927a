"""Split rows: many relevant items whose groups are split by fold of the gallery.

Whole rows, since a thread's own split counts of all queries would take far more memory than
distances. There are no observers, and no other view to split in.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.rows_ahead import check_pairs, rows_ahead, whole_rows
from truerank.engine.threads import Workspace
from truerank.relevance import BlockPairs, View
from truerank.space import Distances, Rows, Space

__all__ = ["SplitRows", "split_counts"]


class SplitRows:
    """Whole rows, counted by fold of the gallery."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        folds = item.folds
        if folds is None:
            raise ValueError("there are no folds to split rows by")

        def count(rows: Rows, workspace: Workspace) -> Block:
            distances = whole_rows(space, rows, tiles, workspace)
            pairs = view.block(rows)
            held, one = np.unique(pairs.relevant.query, return_index=True)
            mate = pairs.relevant.item[one]
            check_pairs(space, rows[held], mate, distances[held, mate])
            distances[pairs.excluded.query, pairs.excluded.item] = np.inf
            return split_counts(space, rows, distances, view, pairs, folds)

        yield from rows_ahead(item, context, count)


def split_counts(
    space: Space,
    rows: Rows,
    distances: Distances,
    view: View,
    pairs: BlockPairs,
    folds: GalleryFolds,
) -> Block:
    """Tie groups of whole rows, whose excluded items are at infinity, split by fold in a view."""
    mates = distances[pairs.relevant.query, pairs.relevant.item]
    counts = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    counts.split_by(folds, rows, pairs, mates)
    counts.add_tile(distances, rows, (0, space.gallery), folds)
    gone = np.bincount(pairs.excluded.query, minlength=len(rows))
    return counts.block(rows, space.gallery - gone, pairs.excluded, folds)
