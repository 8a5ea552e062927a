"""Losses: every objective of the papers by name, with its search space; ours and borrowed ones."""

from __future__ import annotations

from truerank.losses.registry import (
    LossEntry,
    SearchChoice,
    SearchRange,
    entry,
    get,
    miner,
    miners,
    names,
    sum_over_levels,
    with_miner,
)
from truerank.losses.trust import trusted_labels

__all__ = [
    "LossEntry",
    "SearchChoice",
    "SearchRange",
    "entry",
    "get",
    "miner",
    "miners",
    "names",
    "sum_over_levels",
    "trusted_labels",
    "with_miner",
]
