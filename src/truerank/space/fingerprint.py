"""Fingerprints: a number for each row that no order of rows or dimensions can change.

Different rows have different fingerprints, with very few exceptions. What is drawn at random is
drawn in their order, so that a seed picks the same rows and classes however they are arranged or
named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import compiled, kernel
from truerank.space.device_rows import DeviceRows
from truerank.space.pieces import over

__all__ = [
    "Fingerprints",
    "magnitudes",
    "mix",
    "products",
    "row_prints",
    "signed_sums",
    "told_apart",
    "weighted_sum",
]

Fingerprints = npt.NDArray[np.uint64]
_CHUNK_NUMBERS = 1 << 20


def mix(numbers: npt.NDArray[Any]) -> Fingerprints:
    """Scramble 64 bits (the finaliser of splitmix64); 0 stays 0, so that zeros never count."""
    z = np.asarray(numbers).astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def row_prints(rows: Any) -> Fingerprints:
    """The fingerprint of each row of integers: a sum over its components.

    First comes the sum, modulo 2^64, of the scrambled magnitudes. If any two rows agree in it, rows
    of the same magnitudes in other places are separated by their product with a sum of all rows,
    each weighted by its own number, and what that leaves together (rows and their opposites, as
    many of each) by its signs. In integers modulo 2^64 no order of summation shows.
    """
    if isinstance(rows, DeviceRows):
        return _prints_on_device(rows)
    here = f"{__name__}:"
    prints = np.concatenate(over(rows, f"{here}magnitudes"))
    if _all_differ(prints):
        return mix(prints)
    reference = np.zeros(rows.shape[1], np.uint64)
    for some in over(rows, f"{here}weighted_sum", by_row=(mix(prints),)):
        reference += some
    crossed = np.concatenate(over(rows, f"{here}products", shared=(reference,)))
    signed = np.concatenate(over(rows, f"{here}signed_sums"))
    return told_apart(mix(prints + mix(crossed)), signed)


def magnitudes(rows: npt.NDArray[Any]) -> Fingerprints:
    """The sum of each row's scrambled magnitudes."""
    out = np.zeros(len(rows), np.uint64)
    if compiled():
        _sum_rows(rows, out)
    else:
        for where, some in _chunks(rows):
            out[where] = mix(np.abs(some)).sum(axis=1, dtype=np.uint64)
    return out


def weighted_sum(rows: npt.NDArray[Any], weights: Fingerprints) -> Fingerprints:
    """The sum of all rows, each times its weight."""
    out = np.zeros(rows.shape[1], np.uint64)
    if compiled():
        _sum_weighted(rows, weights, out)
    else:
        for where, some in _chunks(rows):
            weighted = some.astype(np.uint64) * weights[where][:, None]
            out += weighted.sum(axis=0, dtype=np.uint64)
    return out


def products(rows: npt.NDArray[Any], reference: Fingerprints) -> Fingerprints:
    """The product of each row with one."""
    out = np.zeros(len(rows), np.uint64)
    if compiled():
        _multiply(rows, reference, out)
    else:
        for where, some in _chunks(rows):
            out[where] = (some.astype(np.uint64) * reference).sum(axis=1, dtype=np.uint64)
    return out


def signed_sums(rows: npt.NDArray[Any]) -> Fingerprints:
    """The sum of each row's scrambled components, with their signs."""
    out = np.zeros(len(rows), np.uint64)
    for where, some in _chunks(rows):
        out[where] = mix(some).sum(axis=1, dtype=np.uint64)
    return out


def _prints_on_device(rows: DeviceRows) -> Fingerprints:
    prints = rows.scrambled_sums(signed=False)
    if _all_differ(prints):
        return mix(prints)
    products = rows.sums_with(rows.weighted_sum(mix(prints)))
    return told_apart(mix(prints + mix(products)), rows.scrambled_sums(signed=True))


def _all_differ(prints: Fingerprints) -> bool:
    ordered = np.sort(prints)
    return bool((ordered[1:] != ordered[:-1]).all())


def told_apart(prints: Fingerprints, more: Fingerprints) -> Fingerprints:
    """The fingerprints, with more mixed in where rows agree that differ in it."""
    found, group = np.unique(prints, return_inverse=True)
    if len(found) == len(prints):
        return prints
    low, high = np.full(len(found), np.iinfo(np.uint64).max), np.zeros(len(found), np.uint64)
    np.minimum.at(low, group, more)
    np.maximum.at(high, group, more)
    return np.where((low < high)[group], mix(prints + mix(more)), prints)


def _chunks(rows: npt.NDArray[Any]) -> Iterator[tuple[slice, npt.NDArray[np.int64]]]:
    step = max(1, _CHUNK_NUMBERS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield slice(start, start + step), rows[start : start + step].astype(np.int64)


@kernel
def _scrambled(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _sum_rows(rows: Any, out: Any) -> None:
    for row in range(rows.shape[0]):
        total = np.uint64(0)
        for column in range(rows.shape[1]):
            total += _scrambled(np.uint64(abs(np.int64(rows[row, column]))))
        out[row] = total


@kernel
def _sum_weighted(rows: Any, weights: Any, out: Any) -> None:
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            out[column] += np.uint64(np.int64(rows[row, column])) * weights[row]


@kernel
def _multiply(rows: Any, reference: Any, out: Any) -> None:
    for row in range(rows.shape[0]):
        total = np.uint64(0)
        for column in range(rows.shape[1]):
            total += np.uint64(np.int64(rows[row, column])) * reference[column]
        out[row] = total
