"""Digests of integer rows: 128 bits each, by which equal rows are found without comparing them.

A row's numbers are taken in one after the other by two chains of multiplications and shifts modulo
2^64, each step a bijection: rows that differ in one number never agree in either half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import compiled, kernel

__all__ = [
    "FACTORS",
    "SEEDS",
    "SHIFTS",
    "Digests",
    "all_differ",
    "as_keys",
    "classes_of_equals",
    "content_order",
    "first_by_content",
    "row_digests",
    "sorted_bytes",
]

Digests = npt.NDArray[np.uint64]
"""Digests of rows, (rows, 2)."""
SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)
FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
SHIFTS = (29, 32)


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


@kernel
def _digest(rows: Any, first: Any, out: Any) -> None:
    for r in range(rows.shape[0]):
        number = np.uint64(first[r])
        a = (np.uint64(SEEDS[0]) ^ number) * np.uint64(FACTORS[0])
        b = (np.uint64(SEEDS[1]) ^ number) * np.uint64(FACTORS[1])
        a ^= a >> np.uint64(SHIFTS[0])
        b ^= b >> np.uint64(SHIFTS[1])
        for i in range(rows.shape[1]):
            number = np.uint64(np.int64(rows[r, i]))
            a = (a ^ number) * np.uint64(FACTORS[0])
            b = (b ^ number) * np.uint64(FACTORS[1])
            a ^= a >> np.uint64(SHIFTS[0])
            b ^= b >> np.uint64(SHIFTS[1])
        out[r, 0] = a
        out[r, 1] = b


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
