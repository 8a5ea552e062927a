"""Ranked by GPUs: many relevant items, rankings that stay on the device where nothing ties."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem
from truerank.space import Rows

__all__ = ["CudaRank"]


class CudaRank:
    """See Strategy. Rows with ties are handed back."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, Rows]:
        """See Strategy."""
        tied: list[Rows] = []
        yield from context.gpus.rankings(iter(item.blocks), tied)
        return np.concatenate(tied)
