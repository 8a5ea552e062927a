"""Trained-like data, made on the device: bench.data's take minutes for a million rows."""

from __future__ import annotations

from typing import Any

import torch

from bench.data import NOISE

__all__ = ["OTHER_NOISE", "make"]

OTHER_NOISE = {(1_000_000, 20_000): 2.12, (1_000_000, 200_001): 100.0}
"""Noise around the centres that keeps MAP@R above .4 among so many rows and mates; or that hides
the centres, for data that are as good as random."""
_BLOCK = 4096


def make(
    rows: int,
    dimensions: int,
    classes: int,
    *,
    device: str = "cuda",
    noise: float | None = None,
) -> tuple[Any, Any]:
    """Rows around the centres of equally large classes, in any order, and their labels."""
    generator = torch.Generator(device).manual_seed(2026)
    labels = torch.arange(rows, device=device) * classes // rows
    labels = labels[torch.randperm(rows, generator=generator, device=device)]
    centres = torch.randn((classes, dimensions), generator=generator, device=device)
    x = torch.randn((rows, dimensions), generator=generator, device=device)
    x *= OTHER_NOISE.get((rows, classes), NOISE.get(dimensions, 1.0)) if noise is None else noise
    for start in range(0, rows, _BLOCK):
        x[start : start + _BLOCK] += centres[labels[start : start + _BLOCK]]
    return x, labels
