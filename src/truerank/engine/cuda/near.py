"""What filters leave of a tile, products that matter and pairs that stay open, and who decides."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from truerank.engine.cuda import sizes
from truerank.engine.cuda.counting import DeviceTally

__all__ = ["LISTS", "PART", "Near", "Opened", "decide"]

PART = 16
"""Items whose products are kept together, if one of them matters."""
LISTS = 4
"""Lists of open items that a query has: each is written by one program."""


@dataclass(frozen=True)
class Near:
    """Room for the products of some queries with some items, of which near parts are kept."""

    number: Any
    """How many parts of each query are kept."""
    parts: Any
    """(queries, places): their numbers; there is room for a multiple of four."""
    products: Any
    """(queries, places x PART): products, each in its own place; those of other parts are left as
    they were."""

    @staticmethod
    def room(queries: int, items: int, device: Any) -> Near:
        """Room for so many queries and items."""
        places = -(-items // (4 * PART)) * 4
        return Near(
            torch.empty(queries, dtype=torch.int32, device=device),
            torch.empty((queries, places), dtype=torch.int32, device=device),
            torch.empty((queries, places * PART), dtype=torch.float32, device=device),
        )

    @property
    def places(self) -> int:
        """Parts that there may be of each query."""
        return int(self.parts.shape[1])


@dataclass(frozen=True)
class Opened:
    """Items of a strip that a filter could not decide: LISTS lists for each query, one after the
    other."""

    found: Any
    """How many each list has; more than there is room for are not listed."""
    entries: Any
    """(lists, room): the items' numbers in the strip."""

    @staticmethod
    def room(queries: int, room: int, device: Any) -> Opened:
        """Empty lists of so many queries, with room for so many items each."""
        found = torch.zeros(LISTS * queries, dtype=torch.int32, device=device)
        entries = torch.empty((LISTS * queries, room), dtype=torch.int32, device=device)
        return Opened(found, entries)

    def part(self, queries: int) -> Opened:
        """The lists of the first queries."""
        return Opened(self.found[: LISTS * queries], self.entries[: LISTS * queries])


def decide(
    filters: ModuleType,
    cuts: tuple[Any, Any],
    near: Near,
    items: int,
    tally: DeviceTally,
    opened: Opened,
) -> None:
    """Count the items of near parts that lie on a known side of each threshold, by the kernels
    `filters`; the open ones are listed. `cuts` are the sure and the lost ones of each query."""
    if tally.split is None and tally.edges.shape[1] <= sizes.FEW:
        filters.compare(*cuts, near, items, tally.less, opened)
    else:
        filters.settle(*cuts, near, items, tally.bins, opened, tally.split)
