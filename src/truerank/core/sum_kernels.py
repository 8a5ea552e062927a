"""Kernels of exact sums: float64 values by exponent, changes by jackknife group."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel


@kernel
def _sum_by_exponent(values: Any, high: Any, low: Any) -> None:
    """Add up the high and low halves of float64 numbers, given by their bits, by exponent.

    A sum has room for 2^36 halves of 27 bits.
    """
    for value in values:
        exponent = (value >> 52) & 0x7FF
        integer = value & 0xFFFFFFFFFFFFF
        if exponent > 0:
            integer |= 0x10000000000000
        else:  # subnormal numbers have the exponent of the smallest normal ones
            exponent = 1
        if value < 0:
            integer = -integer
        high[exponent] += integer >> 27
        low[exponent] += integer & 0x7FFFFFF


ONE = 2.0**40
"""Values are summed in units of 2^-40, their squares in units of the square of 2^-22."""
COARSE = 2.0**22
AT_A_TIME = 256
"""So many values, or squares, of at most 1 add up in a float64 without rounding."""


@kernel
def _count_of_folds(rows: Any, own: Any, out: Any) -> None:
    for row in rows:
        for way in range(own.shape[1]):
            out[own[row, way]] += 1


@kernel
def _sum_of_folds(values: Any, rows: Any, own: Any, out: Any) -> None:
    """Add up the high and the low 32 bits of `fixed` values by column; of all, in the last one."""
    last = out.shape[1] - 1
    for place in range(rows.size):
        steps = np.int64(np.rint(values[place] * ONE))
        high = steps >> 32
        low = steps & 0xFFFFFFFF
        out[0, last] += high
        out[1, last] += low
        for way in range(own.shape[1]):
            column = own[rows[place], way]
            out[0, column] += high
            out[1, column] += low


@kernel
def add_row(values: Any, before: float, mine: Any, weight: float, alike: bool, sums: Any) -> None:
    """Add how far a query's values without each fold lie from the one `before`: its number,
    weight, weighted change, squared weight and its products with the change and its square, where
    the query stays. These are whole numbers, in float64 so that columns are vectors; at most
    AT_A_TIME queries are added to them.

    `values` are written over. Where all queries weigh 1 `alike`, add_whole fills in the rest.
    """
    columns = values.size
    for column in range(columns):
        values[column] -= before
    for way in range(mine.size):
        values[mine[way]] = np.nan
    if alike:
        for column in range(columns):
            stays = values[column] == values[column]
            moved = values[column] if stays else 0.0
            steps = np.rint(moved * COARSE)
            sums[0, column] += 1.0 if stays else 0.0
            sums[2, column] += np.rint(moved * ONE)
            sums[5, column] += steps * steps
        return
    unit = np.rint(weight * ONE)
    heavy = np.rint(weight * weight * ONE)
    for column in range(columns):
        stays = values[column] == values[column]
        here = 1.0 if stays else 0.0
        moved = weight * values[column] if stays else 0.0
        steps = np.rint(moved * COARSE)
        sums[0, column] += here
        sums[1, column] += here * unit
        sums[2, column] += np.rint(moved * ONE)
        sums[3, column] += here * heavy
        sums[4, column] += np.rint(weight * moved * ONE)
        sums[5, column] += steps * steps


@kernel
def add_whole(sums: Any, alike: bool, total: Any) -> None:
    """Add what at most AT_A_TIME calls of add_row have added up to sums of any number, and take it
    off there."""
    for column in range(total.shape[1]):
        if alike:
            sums[1, column] = sums[3, column] = sums[0, column] * ONE
            sums[4, column] = sums[2, column]
        for i in range(6):
            total[i, column] += np.int64(sums[i, column])
            sums[i, column] = 0.0


@kernel
def _add_rows(change: Any, mine: Any, weights: Any, alike: bool, sums: Any, total: Any) -> None:
    row = np.empty(change.shape[1])
    for query in range(change.shape[0]):
        for column in range(row.size):
            row[column] = change[query, column]
        add_row(row, 0.0, mine[query], weights[query], alike, sums)
        if query % AT_A_TIME == AT_A_TIME - 1:
            add_whole(sums, alike, total)
    add_whole(sums, alike, total)
