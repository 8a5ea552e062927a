"""Correctly rounded means: the exact rational mean, rounded once, in any order of the values.

Float64 values are integers times powers of two. Sums of their high and low halves per exponent
are exact in float64 (below 2^53), and Python integers do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from truerank._util.kernels import compiled
from truerank._util.types import Integers, Reals
from truerank.core.sum_kernels import _sum_by_exponent

_AT_A_TIME = 1 << 26
_EXPONENTS, _PLACES = 2048, 1075
"""Exponents that the bits of a float64 may have, and the one of whole numbers of 53 bits."""
_FEW = 64
"""Up to so many values Python's integers add up faster than arrays are made."""


def exact_sum(values: Reals, times: Integers | None = None) -> Fraction:
    """The sum of finite float64 values, without any rounding; each counts as often as `times` says.

    Up to 2^26 values, so often, are added at a time.
    """
    total, bits = _binary_sum(values, times)
    return Fraction(total, 1 << bits)


def mean(values: Reals, times: Integers | None = None) -> float:
    """The mean over queries, or over the queries that share each value; NaN if there are none."""
    count = len(values) if times is None else int(times.sum())
    if not count:
        return float("nan")
    total, bits = _binary_sum(values, times)
    return total / (count << bits)  # a quotient of integers is rounded once


def _binary_sum(values: Reals, times: Integers | None) -> tuple[int, int]:
    """A sum as an integer and the number of its binary places."""
    total = bits = 0
    if times is None and len(values) <= _FEW:
        for top, bottom in (value.as_integer_ratio() for value in values.tolist()):
            more = max(bottom.bit_length() - 1 - bits, 0)  # denominators are powers of two
            total, bits = total << more, bits + more
            total += top << (bits + 1 - bottom.bit_length())
        return total, bits
    if compiled() and times is None:
        high, low = np.zeros((2, _EXPONENTS), np.int64)
        _sum_by_exponent(np.ascontiguousarray(values, np.float64).view(np.int64), high, low)
        held = np.flatnonzero(high | low).tolist()
        bits = max(0, _PLACES - held[0]) if held else 0
        for place in held:
            part = (int(high[place]) << 27) + int(low[place])
            total += part << (place - _PLACES + bits)
        return total, bits
    if times is not None and times.sum() > _AT_A_TIME:
        values, times = np.repeat(values, times), None
    for start in range(0, len(values), _AT_A_TIME):
        mantissa, exponent = np.frexp(values[start : start + _AT_A_TIME])
        integer = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = int(exponent.min())
        bins = exponent - lowest
        often = 1 if times is None else times
        high = np.bincount(bins, weights=(integer >> 27) * often)
        low = np.bincount(bins, weights=(integer & ((1 << 27) - 1)) * often)
        whole = sum(
            ((int(h) << 27) + int(part)) << shift
            for shift, (h, part) in enumerate(zip(high.tolist(), low.tolist(), strict=True))
        )
        more = max(53 - lowest - bits, 0)
        total, bits = total << more, bits + more
        total += whole << (bits - (53 - lowest))
    return total, bits


def plain_mean(scores: Sequence[float]) -> float:
    """The mean of a few scores; NaN if one of them is."""
    if any(score != score for score in scores):
        return float("nan")
    return scores[0] if len(scores) == 1 else mean(np.array(scores))


def class_mean(values: Reals, classes: Integers) -> float:
    """The mean over classes of the mean over each class's queries; NaN if there are none.

    Classes of one size share a denominator, so one exact sum for each size is enough.
    """
    if not len(values):
        return float("nan")
    _, number, size = np.unique(classes, return_inverse=True, return_counts=True)
    size_of = size[number]
    total = sum(
        (exact_sum(values[size_of == count]) / int(count) for count in np.unique(size)),
        Fraction(0),
    )
    total /= len(size)
    return total.numerator / total.denominator
