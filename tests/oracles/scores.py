"""Exact distances by their definitions, in Python integers and Fractions.

In: rows of finite numbers. Out: a matrix (list of lists) of Fractions, smaller is better, whose
order and whose equalities are the truth for the ranking. No unit is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any

Row = Sequence[Any]
Matrix = list[list[Fraction]]


def distances(distance: str, queries: Sequence[Row], gallery: Sequence[Row] | None) -> Matrix:
    """The (Q, G) matrix of exact distances; without a gallery, the queries against themselves.

    For ``precomputed`` and ``similarity`` the queries are the matrix itself.
    """
    if distance == "precomputed":
        return [[Fraction(value) for value in row] for row in queries]
    if distance == "similarity":
        return [[-Fraction(value) for value in row] for row in queries]
    if gallery is None:
        gallery = queries
    if distance == "cityblock":
        return _cityblock(queries, gallery)
    pairwise = {"cosine": _cosine, "euclidean": _euclidean, "dot": _dot, "hamming": _hamming}[
        distance
    ]
    return pairwise(queries, gallery)


def _as_integers(row: Row) -> tuple[list[int], int]:
    """Integers and an exponent s, such that the row is exactly the integers over 2^s."""
    ratios = [Fraction(value).as_integer_ratio() for value in row]
    common = max(denominator for _, denominator in ratios)
    integers = [numerator * (common // denominator) for numerator, denominator in ratios]
    return integers, common.bit_length() - 1


def cosine_grid(row: Row) -> tuple[int, ...]:
    """x / |x| in units of 2^-25, to the nearest integer, ties to even; zero stays zero."""
    integers, _ = _as_integers(row)
    square = sum(value * value for value in integers)
    return tuple(_round_over_root(value * 2**25, square) for value in integers)


def _round_over_root(value: int, square: int) -> int:
    """value / sqrt(square) to the nearest integer, ties to even."""
    if value == 0:
        return 0
    below = isqrt(value * value // square)
    # The midpoint between this integer and the next, squared, against the true value, squared.
    difference = 4 * value * value - (2 * below + 1) ** 2 * square
    up = difference > 0 or (difference == 0 and below % 2 == 1)
    return (below + up) * (1 if value > 0 else -1)


def short_row(row: Row) -> list[int] | None:
    """The row over its largest common power of two, if its squared length is below 2^24 then."""
    integers, _ = _as_integers(row)
    while any(integers) and all(value % 2 == 0 for value in integers):
        integers = [value // 2 for value in integers]
    return integers if 0 < sum(value * value for value in integers) < 2**24 else None


def _true_cosine(x: list[int], y: list[int]) -> Fraction:
    """2 - 2 cos from the squared cosine, which as a float is the nearest to the rational one."""
    product = sum(a * b for a, b in zip(x, y, strict=True))
    squares = sum(a * a for a in x) * sum(b * b for b in y)
    steps = round(sqrt(float(Fraction(product * product, squares))) * 2**51)
    return 2 - Fraction(steps if product > 0 else -steps, 2**50)


def _cosine(queries: Sequence[Row], gallery: Sequence[Row]) -> Matrix:
    def distance(x: tuple[int, ...], y: tuple[int, ...]) -> Fraction:
        if sum(a * b for a, b in zip(x, y, strict=True)) == 0:
            return Fraction(2)
        units = (
            sum(a * a for a in x)
            + sum(b * b for b in y)
            - 2 * sum(a * b for a, b in zip(x, y, strict=True))
        )
        return Fraction(units, 2**50)

    x_hat, y_hat = [cosine_grid(row) for row in queries], [cosine_grid(row) for row in gallery]
    x_short, y_short = [short_row(row) for row in queries], [short_row(row) for row in gallery]
    return [
        [
            distance(x, y) if a is None or b is None else _true_cosine(a, b)
            for y, b in zip(y_hat, y_short, strict=True)
        ]
        for x, a in zip(x_hat, x_short, strict=True)
    ]


def own_scale_grid(row: Row) -> tuple[Fraction, ...]:
    """The row rounded to its own grid: 2^(e - 26) with |x| / 2^e in [1/2, 1), ties to even."""
    integers, shift = _as_integers(row)
    square = sum(value * value for value in integers)
    exponent = 0
    while square >= 4 ** (exponent + shift):
        exponent += 1
    while 0 < square < 4 ** (exponent + shift - 1):
        exponent -= 1
    unit = Fraction(2) ** (exponent - 26 + shift)
    return tuple(round(value / unit) * unit / 2**shift for value in integers)


def _product(x: Sequence[Fraction], y: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def _dot(queries: Sequence[Row], gallery: Sequence[Row]) -> Matrix:
    x_hat, y_hat = (
        [own_scale_grid(row) for row in queries],
        [own_scale_grid(row) for row in gallery],
    )
    return [[-_product(x, y) for y in y_hat] for x in x_hat]


def _euclidean(queries: Sequence[Row], gallery: Sequence[Row]) -> Matrix:
    """(h - 2s) + l, where h + l = |x|^2 + |y|^2 and s = x.y exactly; each operation rounds."""

    def distance(x: Sequence[Fraction], y: Sequence[Fraction]) -> Fraction:
        squares = _product(x, x) + _product(y, y)
        high = _to_double(squares)
        low = squares - high
        return _to_double(_to_double(high - 2 * _product(x, y)) + low)

    x_hat, y_hat = (
        [own_scale_grid(row) for row in queries],
        [own_scale_grid(row) for row in gallery],
    )
    return [[distance(x, y) for y in y_hat] for x in x_hat]


def _to_double(value: Fraction) -> Fraction:
    return Fraction(float(value))  # a Fraction converts to the nearest double, ties to even


def _cityblock(queries: Sequence[Row], gallery: Sequence[Row]) -> Matrix:
    """L1 on the grid 2^-52, after the power of two that brings the largest L1 norm to <= 1."""
    x, y = ([[Fraction(value) for value in row] for row in side] for side in (queries, gallery))
    largest = max((sum(map(abs, row), Fraction(0)) for row in [*x, *y]), default=Fraction(0))
    exponent = 0
    if largest > 0:
        while largest > Fraction(2) ** exponent:
            exponent += 1
        while largest <= Fraction(2) ** (exponent - 1):
            exponent -= 1
    unit = Fraction(2) ** (exponent - 52)
    x_hat, y_hat = ([[round(value / unit) for value in row] for row in side] for side in (x, y))
    return [
        [Fraction(sum(abs(a - b) for a, b in zip(p, q, strict=True))) for q in y_hat] for p in x_hat
    ]


def _hamming(queries: Sequence[Row], gallery: Sequence[Row]) -> Matrix:
    return [
        [Fraction(sum(a != b for a, b in zip(x, y, strict=True))) for y in gallery] for x in queries
    ]
