"""Cosine against a gallery that is not held: its rows are made or read again wherever needed.

A source gives any rows by their numbers, always the same. A device keeps them in half precision
and asks again for those about which that leaves a doubt (truerank.engine.cuda.sourced); on the CPU
every tile is rounded again, which is slow and right.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.space.base import Distances, Rows, Space
from truerank.space.cosine import Cosine
from truerank.space.fingerprint import Fingerprints, row_prints
from truerank.space.rows import round_rows, unit_rows
from truerank.space.sides import Side, Sides

__all__ = ["ArraySource", "RowSource", "SourcedCosine"]


class RowSource(Protocol):
    """Rows of real numbers, of which any can be had again, the same each time."""

    shape: tuple[int, int]

    def read(self, rows: Rows) -> npt.NDArray[Any]:
        """Some rows, in main memory."""

    def send(self, rows: Any) -> Any:
        """Some rows as a tensor of float64, on the device of the tensor that names them."""


class ArraySource:
    """The rows of an array, such as a .npy file that is mapped and not read."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        self.shape: tuple[int, int] = (array.shape[0], array.shape[1])

    def read(self, rows: Rows) -> npt.NDArray[Any]:
        """See RowSource."""
        return np.asarray(self._array[rows])

    def send(self, rows: Any) -> Any:
        """See RowSource."""
        import torch

        found = torch.from_numpy(np.ascontiguousarray(self.read(rows.cpu().numpy())))
        return found.to(rows.device).double()


class SourcedCosine(Space):
    """The cosine space of queries that are held and a gallery that is not.

    Queries must not be short (truerank.space.short): whether an item is, nobody has looked.
    """

    integral = True
    unit_scale = Cosine.unit_scale
    ZERO = Cosine.ZERO

    def __init__(self, queries: npt.NDArray[Any], source: RowSource) -> None:
        sides = Sides("cosine", Side("queries", queries, None))
        self.left, self.source = round_rows(sides.queries, unit_rows, None), source
        if self.left.integers.shape[1] != source.shape[1]:
            raise InputError(
                "queries and gallery must have the same number of dimensions. "
                f"Got {self.left.integers.shape} and {source.shape}."
            )
        if self.left.short is not None:
            raise InputError(
                "queries of small integers have their true cosines only against a gallery that is "
                "held; pass it as an array."
            )
        self.queries, (self.gallery, self.dimension) = len(self.left.integers), source.shape
        self.facts = sides.facts("2^-25 of the unit vector")
        self.query_digests = sides.queries.digests
        self.gallery_digests = self.query_digests[:0]

    def items(self, rows: Rows) -> Cosine:
        """The space of all queries and some items."""
        found = self.source.read(rows).astype(np.float64)
        if not np.isfinite(found).all():
            raise InputError("NaN or infinity in the gallery; every number must be finite.")
        rounded, _ = unit_rows(found)
        return Cosine(self.left, rounded, self.facts)

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""

        def tile(start: int, stop: int) -> Distances:
            return self.items(np.arange(start, stop)).block(rows)(0, stop - start)

        return tile

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        items, place = np.unique(item, return_inverse=True)
        if not len(items):
            return np.empty(0)
        return self.items(items).pairs(query, place)

    def query_norm(self) -> npt.NDArray[Any]:
        """|x|^2 of the queries, as it enters a distance."""
        return Cosine(self.left, self.left, self.facts).norms[0]

    def in_unit(self, distances: Distances) -> Distances:
        """See Space."""
        return Cosine.in_unit(self, distances)  # type: ignore[arg-type]

    def raw(self, threshold: Fraction) -> Fraction:
        """See Space."""
        return Cosine.raw(self, threshold)  # type: ignore[arg-type]

    def fingerprints(self) -> Fingerprints:
        """See Space."""
        return row_prints(self.left.integers)
