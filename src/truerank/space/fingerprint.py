"""A number for each row that neither the order of rows nor that of dimensions can change.

It only has to tell rows apart: what is drawn at random is drawn in the order of these numbers, so
that a seed picks the same rows and classes however they are arranged or named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Fingerprints", "mix", "refined", "row_sums"]

Fingerprints = npt.NDArray[np.uint64]
_CHUNK_NUMBERS = 1 << 20


def mix(numbers: npt.NDArray[Any]) -> Fingerprints:
    """Scramble 64 bits (the finaliser of splitmix64); 0 stays 0, so that zeros never count."""
    z = np.asarray(numbers).astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def row_sums(rows: npt.NDArray[Any]) -> Fingerprints:
    """The sum, modulo 2^64, of the scrambled magnitudes of each row's integers."""
    return np.concatenate(
        [mix(np.abs(some)).sum(axis=1, dtype=np.uint64) for some in _chunks(rows)]
    )


def refined(rows: npt.NDArray[Any], prints: Fingerprints) -> Fingerprints:
    """Tell apart by position as well: products with a sum of all rows, each by its own print.

    Integers modulo 2^64: no order of summation shows.
    """
    reference = np.zeros(rows.shape[1], np.uint64)
    start = 0
    for some in _chunks(rows):
        weights = mix(prints[start : start + len(some)])
        reference += (some.astype(np.uint64) * weights[:, None]).sum(axis=0, dtype=np.uint64)
        start += len(some)
    products = [
        (some.astype(np.uint64) * reference).sum(axis=1, dtype=np.uint64) for some in _chunks(rows)
    ]
    return mix(prints + mix(np.concatenate(products)))


def _chunks(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.int64]]:
    step = max(1, _CHUNK_NUMBERS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield rows[start : start + step].astype(np.int64)
