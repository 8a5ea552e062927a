"""Quotients of sums that were taken elsewhere: sums in two parts in, values out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.metrics import kernels

__all__ = ["settled"]

Reals = npt.NDArray[np.float64]


def settled(high: Reals, low: Reals, total: Reals, total_low: Reals) -> Reals:
    """(3, queries): each sum divided by its total, which is sure without ties."""
    out = np.empty((3, len(high)))
    kernels.settle_sure(high, low, total, total_low, out)
    return out
