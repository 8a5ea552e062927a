"""Counted by GPUs: few relevant items, tie groups from the device."""

from __future__ import annotations

from collections.abc import Generator

from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem

__all__ = ["CudaCount", "CudaCountBothWays"]


class CudaCount:
    """Few relevant items, counted by GPUs."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        yield from context.gpus.tie_groups(iter(item.blocks), folds=item.folds)


class CudaCountBothWays:
    """Few relevant items, and queries that are items too: a GPU multiplies each pair once."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        yield from context.gpus.tie_groups_both_ways(item.blocks, folds=item.folds)
