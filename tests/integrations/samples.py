"""The set of samples that two processes share, and who sees which."""

from __future__ import annotations

import torch

SAMPLES = 21
SHARES = {
    "uneven": (range(13), range(13, SAMPLES)),
    "overlapping": (range(15), range(6, SAMPLES)),
    "one sees nothing": (range(SAMPLES), range(0)),
}


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Small whole numbers: a network's sums are exact in any batch on any process."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randint(-9, 10, (SAMPLES, 4), generator=generator).float()
    return rows, torch.arange(SAMPLES) % 5
