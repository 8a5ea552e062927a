"""The rows of items about which half precision leaves a doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["OpenRows", "chosen_rows"]


@dataclass(frozen=True)
class OpenRows:
    """Integer rows of items, their norms, and the lists of those that are open for each query."""

    integers: Any
    norm: Any
    entries: Any
    chosen: Any
    """Which items of the strip the rows are; None for all of them."""


def chosen_rows(items: int, found: Any, entries: Any) -> tuple[Any, Any] | None:
    """The items of a strip that are open for some query, and the lists in their numbers.

    `entries` lists the open items of each query, as many as `found` says. None if there are none.
    """
    device = entries.device
    wide = min(int(found.max()), entries.shape[1])
    entries = entries[:, :wide]
    held = torch.arange(wide, device=device) < found[:, None]
    listed = entries[held].long()
    if not len(listed):
        return None
    is_open = torch.zeros(items, dtype=torch.bool, device=device)
    is_open[listed] = True
    place = torch.cumsum(is_open, 0, dtype=torch.int32) - 1
    renamed = torch.zeros(entries.shape, dtype=entries.dtype, device=device)
    renamed[held] = place[listed]
    return torch.nonzero(is_open).flatten(), renamed
