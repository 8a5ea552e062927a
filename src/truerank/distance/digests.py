"""Digests of integer rows, which find equal rows, and fingerprints, which ignore all orders.

A digest has 128 bits: two chains of multiplications and shifts modulo 2^64 take in a row's
numbers one after the other, each step a bijection, so that rows that differ in one number never
agree in either half. A fingerprint is one number per row that no order of rows or dimensions
can change. Random draws follow the order of the fingerprints, so a seed picks the same rows and
classes however they are arranged or named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.kernels import compiled
from truerank.distance.distance_kernels import (
    FACTORS,
    SEEDS,
    SHIFTS,
    _digest,
    _multiply,
    _sum_rows,
    _sum_weighted,
)
from truerank.distance.remote_rows import DeviceRows, over

# Digests of integer rows: 128 bits each, by which equal rows are found without comparing them.


Digests = npt.NDArray[np.uint64]
"""Digests of rows, (rows, 2)."""


def row_digests(rows: npt.NDArray[Any], more: npt.NDArray[Any] | None = None) -> Digests:
    """The digest of each row of integers, to which another integer may belong."""
    first = np.zeros(len(rows), np.int64) if more is None else more.astype(np.int64)
    out = np.empty((len(rows), 2), np.uint64)
    if compiled():
        _digest(rows, first, out)
        return out
    for half in range(2):
        state = np.full(len(rows), SEEDS[half], np.uint64)
        for column in [first, *rows.T]:
            state = (state ^ column.astype(np.int64).astype(np.uint64)) * np.uint64(FACTORS[half])
            state ^= state >> np.uint64(SHIFTS[half])
        out[:, half] = state
    return out


def sorted_bytes(digests: Digests, order: npt.NDArray[np.int64] | None = None) -> bytes:
    """All digests in their content order, so that the order of rows does not show."""
    ordered = digests[content_order(digests) if order is None else order]
    return ordered.astype("<u8", copy=False).tobytes()


def content_order(
    digests: Digests, order: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """An order of the rows that follows from what they hold; of equal rows it is any.

    It goes by the second half, then by the first where two agree: quicker than by both. Whoever
    has an order by the second half hands it on, and has it no more.
    """
    if order is None:
        order = np.argsort(digests[:, 1])
    half = digests[order, 1]
    same = np.zeros(len(order), bool)
    same[1:] = half[1:] == half[:-1]
    same[:-1] |= same[1:]
    tied = order[same]
    order[same] = tied[np.lexsort(digests[tied].T)]
    return order


def as_keys(digests: Digests) -> list[bytes]:
    """The digests as bytes, which can be looked up in a dict."""
    data = digests.astype("<u8").tobytes()
    return [data[start : start + 16] for start in range(0, len(data), 16)]


def first_by_content(digests: Digests, count: int) -> npt.NDArray[np.int64]:
    """Some rows, chosen by their digests: the same ones in whatever order rows come."""
    key = digests[:, 0]
    some = np.arange(len(key)) if len(key) <= count else np.argpartition(key, count)[:count]
    chosen: npt.NDArray[np.int64] = some[np.argsort(key[some], kind="stable")]
    return chosen


def all_differ(digests: Digests, order: npt.NDArray[np.int64]) -> bool:
    """Whether no two rows are equal, as far as the second halves in their content order tell."""
    half = digests[order, 1]
    return bool((half[1:] != half[:-1]).all())


def classes_of_equals(
    digests: Digests, order: npt.NDArray[np.int64] | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A number for each row that equal rows share, and how many rows have each number.

    Whoever knows the content order of the rows hands it on.
    """
    order = content_order(digests) if order is None else order
    ordered = digests[order]
    fresh = np.zeros(len(order), bool)
    fresh[:1] = True
    for half in ordered.T:
        fresh[1:] |= half[1:] != half[:-1]
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(fresh) - 1
    return number, np.bincount(number)


# Fingerprints: a number for each row that no order of rows or dimensions can change.


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
