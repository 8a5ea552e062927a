"""The table of harmonic numbers that long tie groups need, grown in powers of two."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from truerank.metrics import kernels

__all__ = ["harmonics"]

Table = npt.NDArray[np.float64]


@lru_cache(maxsize=4)
def _table(count: int) -> tuple[Table, Table]:
    high, low = np.zeros(count), np.zeros(count)
    if count > 1:
        kernels.harmonic_table(count, high, low)
    return high, low


def harmonics(before: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> tuple[Table, Table]:
    """High and low parts of H(0), H(64), ... as far as groups longer than the stride reach."""
    long = size > kernels.STRIDE
    if not long.any():
        return _table(1)
    entries = int((before + size)[long].max()) // kernels.STRIDE + 1
    return _table(1 << (entries - 1).bit_length())
