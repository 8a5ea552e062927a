"""Rows rounded on a GPU: the same integers as on the CPU.

Every operation is one of IEEE float64; the order of the one sum is covered by the error bound of
truerank.space.grid, and what that leaves in doubt is decided on the CPU, by integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.space import grid
from truerank.space.device_rows import CHUNK_NUMBERS, DeviceRows
from truerank.space.short import SHORT_BITS
from truerank.space.sides import Side

__all__ = ["RoundedUnits", "propose", "round_units"]

_SHARE = 4
"""Integer rows may take one part in so many of a device's free memory."""


def propose(rows: Any) -> tuple[Any, Any]:
    """Directions of float64 rows in grid units, as far as floating point can tell: int32, and
    (4, rows) flags: not finite, zero, in doubt, maybe short.

    The same steps as truerank.space.kernels.round_units.
    """
    import torch

    bound = (rows.shape[1] / 2 + 4) * 2.0**-53
    largest = rows.abs().amax(1)
    exponent = -torch.frexp(largest).exponent.long()[:, None]
    half = exponent >> 1
    scaled = rows * _power(half)
    scaled *= _power(exponent - half)
    coarse = scaled * 2.0**SHORT_BITS
    whole = (coarse == coarse.trunc()) & ((scaled != 0) | (rows == 0))
    short = whole.all(1) & (largest > 0)
    norm = torch.sqrt((scaled * scaled).sum(1))
    norm = torch.where(largest == 0, 1.0, norm)[:, None]
    quotient = scaled.div_(norm).mul_(2.0**grid.UNIT_BITS)
    rounded = torch.round(quotient)
    integers = rounded.to(torch.int32)
    off = rounded.sub_(quotient).abs_().sub_(0.5).abs_()
    doubtful = (off <= quotient.abs_().mul_(bound)).any(1)
    return integers, torch.stack([~torch.isfinite(largest), largest == 0, doubtful, short])


class RoundedUnits:
    """Unit vectors on the grid, and what must be known of them in main memory."""

    def __init__(self, side: Side, device: Any) -> None:
        import torch

        self._side, self._device = side, device
        shape = side.count, side.dimension
        self._integers = torch.empty(shape, dtype=torch.int32, device=device)
        self._flags = torch.empty((4, side.count), dtype=torch.bool, device=device)
        step = max(1, CHUNK_NUMBERS // side.dimension)
        for start in range(0, side.count, step):
            some = slice(start, min(start + step, side.count))
            self._round(some, side.tensor(some, device).double())
        self.bad, self.zero, doubtful, self.short = self._flags.cpu().numpy()
        self._decide(np.flatnonzero(doubtful & ~self.bad))
        self.rows = DeviceRows(self._integers)

    def _round(self, some: slice, rows: Any) -> None:
        """Round a chunk."""
        self._integers[some], self._flags[:, some] = propose(rows)

    def _decide(self, rows: npt.NDArray[np.int64]) -> None:
        """Round the rows that are in doubt by integers, on the CPU."""
        import torch

        if len(rows):
            exact, _ = grid.unit_grid(np.asarray(self._side.array[rows], np.float64, order="C"))
            place = torch.from_numpy(rows).to(self._device)
            self._integers[place] = torch.from_numpy(exact).to(self._device)


def round_units(side: Side) -> RoundedUnits | None:
    """A side's directions, rounded on its device; None where that is left to the CPU.

    It is where some rows may be short (truerank.space.short), the device has no room, or the rows
    are no floats.
    """
    if side.device is None or side.columns is not None:
        return None
    import torch

    device = torch.device(side.device)
    if np.dtype(side.array.dtype) not in (np.float16, np.float32, np.float64):
        return None
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        if 4 * side.count * side.dimension > free // _SHARE:
            return None
    with torch.no_grad():
        found = RoundedUnits(side, device)
    return None if bool((found.short & ~found.bad).any()) else found


def _power(exponent: Any) -> Any:
    """2^exponent in float64, for exponents of normal numbers."""
    import torch

    return ((exponent + 1023) << 52).view(torch.float64)
