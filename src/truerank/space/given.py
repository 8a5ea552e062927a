"""A matrix handed over instead of embeddings: distances, or similarities (larger is better)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from hashlib import blake2b

import numpy as np

from truerank.space.base import Distances, Facts, Rows, Space
from truerank.space.fingerprint import Fingerprints, mix
from truerank.space.sides import Sides

__all__ = ["Given"]


class Given(Space):
    """A given matrix: its entries widened to float64, similarities with their sign turned.

    `columns` are the gallery items that take part, None for all.
    """

    def __init__(self, matrix: Distances, sign: float, columns: Rows | None, facts: Facts) -> None:
        self._matrix, self._sign, self._columns = matrix, sign, columns
        self.queries = matrix.shape[0]
        self.gallery = matrix.shape[1] if columns is None else len(columns)
        self.facts = facts
        kept = slice(None) if columns is None else columns
        inside = (matrix.min(axis=0) >= 0) & (matrix.max(axis=0) <= 1)
        if sign > 0 and inside[kept].all():
            self.unit_scale = 1.0

    @classmethod
    def of_distances(cls, sides: Sides) -> Space:
        """The space of a matrix in which smaller is nearer."""
        return cls._of(sides, 1.0)

    @classmethod
    def of_similarities(cls, sides: Sides) -> Space:
        """The space of a matrix in which larger is nearer."""
        return cls._of(sides, -1.0)

    @classmethod
    def _of(cls, sides: Sides, sign: float) -> Space:
        digest = blake2b(digest_size=16)
        for _, rows in sides.queries.chunks(None):
            digest.update((rows + 0.0).data)
        facts = Facts(sides.distance, "as given", input_digest=digest.hexdigest())
        return cls(sides.queries.array, sign, sides.columns, facts)

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""

        def tile(start: int, stop: int) -> Distances:
            if self._columns is None:
                return self._distances(self._matrix[rows, start:stop])
            return self._distances(self._matrix[np.ix_(rows, self._columns[start:stop])])

        return tile

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        columns = item if self._columns is None else self._columns[item]
        return self._distances(self._matrix[query, columns])

    def in_unit(self, distances: Distances) -> Distances:
        """See Space: distances and similarities as they were given."""
        return distances * self._sign

    def fingerprints(self) -> Fingerprints:
        """See Space: by significands, which no scale that is a power of two changes."""
        prints = np.array([mix(row).sum(dtype=np.uint64) for row in self._significands()])
        if self.queries != self._matrix.shape[1]:
            return prints
        return np.array([mix(row + prints).sum(dtype=np.uint64) for row in self._significands()])

    def _significands(self) -> Iterator[Fingerprints]:
        for row in range(self.queries):
            significands = np.ldexp(np.frexp(self._distances(self._matrix[row]))[0], 53)
            yield np.abs(significands).astype(np.uint64)

    def raw(self, threshold: Fraction) -> Fraction:
        """See Space: the threshold becomes a float64, as the entries are."""
        return Fraction(float(threshold)) * int(self._sign)

    def linear(self, distances: Distances) -> Distances:
        """See Space: entries as given, similarities with their sign turned."""
        return distances

    def _distances(self, entries: Distances) -> Distances:
        return np.asarray(entries, np.float64) * self._sign + 0.0  # no -0.0
