"""Harmonic numbers, which sums of precisions over long tie groups are made of.

A table of them is grown in powers of two, up to TABLED; what follows is had from the logarithm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import kernel
from truerank.metrics.double_double import add, logarithm, over, times

__all__ = ["STRIDE", "harmonic", "harmonic_step", "harmonic_table", "harmonics", "run", "tied"]

STRIDE = 64
"""The table of harmonic numbers keeps every 64th; the rest is summed when asked for."""


SQUARED = 1 << 31
"""Numbers whose square a 64-bit integer holds."""
TABLED = 1 << 22
"""H(n) of larger n is not summed: memory and time must not grow with a number."""


@kernel
def harmonic_table(count: int, high: Any, low: Any) -> None:
    """H(0), H(64), H(128), ... up to H(64 (count - 1)), summed term by term."""
    h = 0.0
    h_low = 0.0
    high[0] = 0.0
    low[0] = 0.0
    for i in range(1, STRIDE * (count - 1) + 1):
        term, term_low = over(1.0, 0.0, float(i))
        h, h_low = add(h, h_low, term, term_low)
        if i % STRIDE == 0:
            high[i // STRIDE] = h
            low[i // STRIDE] = h_low


@kernel
def harmonic(n: int, high: Any, low: Any) -> tuple[float, float]:
    """H(n) from the table, or beyond it by the series of Euler and Maclaurin.

    H(n) - H(a) = ln n - ln a + (1/n - 1/a)/2 - (1/n^2 - 1/a^2)/12 + ...; the next term is less than
    1e-28 from a = TABLED on.
    """
    if n > TABLED:
        h, h_low = high[TABLED // STRIDE], low[TABLED // STRIDE]
        for m, sign in ((n, 1.0), (TABLED, -1.0)):
            part, part_low = logarithm(float(m))
            h, h_low = add(h, h_low, sign * part, sign * part_low)
            part, part_low = over(0.5 * sign, 0.0, float(m))
            h, h_low = add(h, h_low, part, part_low)
            h, h_low = add(h, h_low, -sign / (12.0 * float(m) * float(m)), 0.0)
        return h, h_low
    base = n // STRIDE
    h = high[base]
    h_low = low[base]
    for i in range(STRIDE * base + 1, n + 1):
        term, term_low = over(1.0, 0.0, float(i))
        h, h_low = add(h, h_low, term, term_low)
    return h, h_low


@kernel
def harmonic_step(k: int, count: int, high: Any, low: Any) -> tuple[float, float]:
    """1/(k+1) + ... + 1/(k+count): directly if short, else as a difference of H."""
    if count <= STRIDE:
        h = 0.0
        h_low = 0.0
        for i in range(k + 1, k + count + 1):
            term, term_low = over(1.0, 0.0, float(i))
            h, h_low = add(h, h_low, term, term_low)
        return h, h_low
    a, a_low = harmonic(k + count, high, low)
    b, b_low = harmonic(k, high, low)
    return add(a, a_low, -b, -b_low)


@kernel
def run(n: int, k: int, count: int, high: Any, low: Any) -> tuple[float, float]:
    """Sum of (n+i)/(k+i), i = 1..count: relevant items one after the other behind k items.

    Each term is 1 - (k-n)/(k+i), so the sum is count - (k-n)(H(k+count) - H(k)).
    """
    if count == 1:
        return over(float(n + 1), 0.0, float(k + 1))
    h, h_low = harmonic_step(k, count, high, low)
    h, h_low = times(h, h_low, float(k - n))
    return add(float(count), 0.0, -h, -h_low)


@kernel
def tied(n: int, k: int, t: int, m: int, count: int, high: Any, low: Any) -> tuple[float, float]:
    """Expected sum over the first `count` positions of a group of t items, m of them relevant.

    A position holds a relevant item with probability m/t, and then (m-1)/(t-1) of the p-1
    positions before it in the group are relevant on average (McSherry & Najork 2008):
    (m/t) sum_p (n + 1 + (p-1) b)/(k+p), b = (m-1)/(t-1). With S = H(k+count) - H(k) this is
    m [(m-1) count + ((n+1)(t-1) - (m-1)(k+1)) S] / (t (t-1)).
    """
    s, s_low = harmonic_step(k, count, high, low)
    s, s_low = times(s, s_low, float((n + 1) * (t - 1) - (m - 1) * (k + 1)))
    s, s_low = add(s, s_low, float((m - 1) * count), 0.0)
    s, s_low = times(s, s_low, float(m))
    if t < SQUARED:
        return over(s, s_low, float(t * (t - 1)))
    s, s_low = over(s, s_low, float(t))
    return over(s, s_low, float(t - 1))


Table = npt.NDArray[np.float64]


@lru_cache(maxsize=4)
def _table(count: int) -> tuple[Table, Table]:
    high, low = np.zeros(count), np.zeros(count)
    if count > 1:
        harmonic_table(count, high, low)
    return high, low


def harmonics(before: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> tuple[Table, Table]:
    """High and low parts of H(0), H(64), ... as far as groups longer than the stride reach."""
    long = size > STRIDE
    if not long.any():
        return _table(1)
    entries = min(int((before + size)[long].max()), TABLED) // STRIDE + 1
    return _table(min(1 << (entries - 1).bit_length(), TABLED // STRIDE + 1))
