"""The protocol of all strategies."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.tiles import Prepare
from truerank.space import Rows

__all__ = ["Strategy", "Tiled"]


class Strategy(Protocol):
    """One way to count rows, or to let observers see them."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, Rows | None]:
        """Yield the tie groups of the item's queries; return the rows that could not be done.

        Queries without a relevant item are seen by the observers, and not yielded.
        """


class Tiled(Protocol):
    """A strategy that counts tiles, each alone: a worker of a cluster may have some of them."""

    def prepare(self, item: WorkItem, context: PassContext) -> Prepare:
        """How tiles are added to the counts of a block."""
