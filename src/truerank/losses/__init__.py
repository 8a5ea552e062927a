"""Losses: the objectives of the papers by name, each with its search space."""

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
    trusted_labels,
    with_miner,
)

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
