"""Smooth bounds of the Heaviside step, from which rank losses are built.

In: x = s_j - s_k, how far item j is ahead of item k. `ahead` is an upper bound for what should not
be ahead, `behind` a lower bound for what should be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from truerank.losses.base import check_number

__all__ = ["Ahead", "behind"]


@dataclass(frozen=True)
class Ahead:
    """An upper bound: a sigmoid up to x = 0, then raised by `start`, and a line from delta on.

    Without an offset the line begins where the sigmoid ends; the authors released 1.44, a step down
    of 0.05.
    """

    temperature: float = 0.01
    rho: float = 100.0
    delta: float = 0.05
    start: float = 0.5
    offset: float | None = None

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, above=0)
        check_number("rho", self.rho, least=0)
        check_number("delta", self.delta, least=0)
        check_number("start", self.start, least=0)
        if self.offset is not None:
            check_number("offset", self.offset)

    def __call__(self, x: Tensor) -> Tensor:
        offset = self.offset
        if offset is None:
            offset = 1 / (1 + math.exp(-self.delta / self.temperature)) + self.start
        curve = torch.sigmoid(x / self.temperature) + self.start * (x > 0)
        return torch.where(x > self.delta, self.rho * (x - self.delta) + offset, curve)


def behind(x: Tensor) -> Tensor:
    """A lower bound of the step: 10x up to x = 0, then 25x + 0.5, at most 1."""
    return torch.where(x > 0, (25 * x + 0.5).clamp_max(1.0), 10 * x)
