"""Rows rounded to the grid of unit vectors on a device: the integers of truerank.space.grid.

Floating point proposes there as it does on the CPU, within the same bound; the few rows with a
component too close to a midpoint are rounded on the CPU, which decides by integers.
"""

from __future__ import annotations

from typing import Any

import torch

from truerank.engine.cuda.transfer import sent
from truerank.errors import InputError
from truerank.space import grid

__all__ = ["unit_rows"]


def unit_rows(rows: Any) -> tuple[Any, Any]:
    """Integer rows of x/|x| (float64 in, int32 out), and |X|^2, that of a row of zeros being 1."""
    largest = rows.abs().amax(1)
    if not bool(torch.isfinite(largest).all()):
        raise InputError("NaN or infinity in the gallery; every number must be finite.")
    exponent = torch.frexp(largest)[1].long().clamp(-1000, 1000)
    scaled = rows * ((1023 - exponent) << 52).view(torch.float64)[:, None]  # a power of two
    length = torch.linalg.vector_norm(scaled, dim=1)
    quotient = scaled / torch.where(largest == 0, 1.0, length)[:, None] * 2.0**grid.UNIT_BITS
    rounded = torch.round(quotient)
    bound = (rows.shape[1] / 2 + 4) * 2.0**-53
    off = (((quotient - rounded).abs() - 0.5).abs() <= bound * quotient.abs()).any(1)
    integers = rounded.to(torch.int32)
    doubtful = torch.nonzero(off).flatten()
    if len(doubtful):
        integers[doubtful] = sent(grid.unit_grid(rows[doubtful].cpu().numpy())[0], rows.device)
    wide = integers.double()
    square = (wide * wide).sum(1)
    return integers, torch.where(largest == 0, 2.0 ** (2 * grid.UNIT_BITS), square)
