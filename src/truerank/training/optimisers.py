"""Optimisers by name, and the learning rate as a function of the iteration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from truerank.training.config import OptimiserConfig, ScheduleConfig

__all__ = ["make_optimiser", "rate"]


def make_optimiser(
    parameters: Iterable[torch.nn.Parameter], config: OptimiserConfig
) -> torch.optim.Optimizer:
    """The configured optimiser: RMSprop, SGD, Adam or AdamW; the first two take the momentum."""
    chosen = list(parameters)
    if config.name == "rmsprop":
        return torch.optim.RMSprop(
            chosen, lr=config.lr, weight_decay=config.weight_decay, momentum=config.momentum
        )
    if config.name == "sgd":
        return torch.optim.SGD(
            chosen, lr=config.lr, weight_decay=config.weight_decay, momentum=config.momentum
        )
    if config.name == "adam":
        return torch.optim.Adam(chosen, lr=config.lr, weight_decay=config.weight_decay)
    return torch.optim.AdamW(chosen, lr=config.lr, weight_decay=config.weight_decay)


def rate(config: ScheduleConfig, iteration: int, total: int) -> float:
    """The share of the learning rate in an iteration, counted from 0: warm-up, then the schedule.

    Examples
    --------
    >>> from truerank.training.config import ScheduleConfig
    >>> schedule = ScheduleConfig(name="cosine", warmup=2)
    >>> [round(rate(schedule, iteration, 6), 3) for iteration in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    if iteration < config.warmup:
        return (iteration + 1) / config.warmup
    if config.name == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (iteration - config.warmup) / (total - config.warmup))) / 2
