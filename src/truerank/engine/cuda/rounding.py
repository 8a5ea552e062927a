"""Rows of a source rounded to the grid of unit vectors on a device: the integers of the CPU."""

from __future__ import annotations

from typing import Any

import torch

from truerank.engine.cuda.transfer import sent
from truerank.errors import InputError
from truerank.space import grid
from truerank.space.device_rounding import propose

__all__ = ["unit_rows"]


def unit_rows(rows: Any) -> tuple[Any, Any]:
    """Integer rows of x/|x| (float64 in, int32 out), and |X|^2, that of a row of zeros being 1."""
    integers, (bad, zero, doubtful, _) = propose(rows)
    if bool(bad.any()):
        raise InputError("NaN or infinity in the gallery; every number must be finite.")
    some = torch.nonzero(doubtful).flatten()
    if len(some):
        integers[some] = sent(grid.unit_grid(rows[some].cpu().numpy())[0], rows.device)
    wide = integers.double()
    square = (wide * wide).sum(1)
    return integers, torch.where(zero, 2.0 ** (2 * grid.UNIT_BITS), square)
