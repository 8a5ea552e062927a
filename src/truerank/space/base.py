"""The base of all spaces: exact distances, a tile at a time or a pair at a time.

A distance is a float64 whose order is exact: smaller is nearer, equal means tied. Tiles come from
the fastest arithmetic at hand, pairs from integers; the probe compares the two on the user's rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.cluster import Cluster
from truerank.space.digests import Digests
from truerank.space.fingerprint import Fingerprints
from truerank.space.single import SinglePrecision

__all__ = ["Distances", "Facts", "Rows", "Space"]

Distances = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass
class Facts:
    """What the result must say about how its distances were made."""

    distance: str
    grid: str
    merged_rows: int = 0
    """Distinct input rows that became equal (cosine: also rows of one direction)."""
    zero_rows: int = 0
    input_digest: str = ""
    short_rows: int = 0
    """Rows of small integers, of which two have their true cosine."""
    rounded_alike: int = 0
    """Distinct true cosines to the same query that tie for want of bits, among those looked at."""
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain JSON values."""
        return dict(vars(self))


class Space(ABC):
    """Exact distances between queries and gallery items."""

    facts: Facts
    integral = False
    """Whether distances are integers below 2^54 in size, so that a grade can be attached."""
    queries: int
    gallery: int
    query_digests: Digests
    """Digests of the queries' rounded rows, by which a row met twice is recognised."""
    gallery_digests: Digests
    """Digests of the gallery's rounded rows; both are empty for given matrices."""

    cluster: Cluster | None = None
    """The cluster on which passes over this space are made; None for this machine."""
    unit_rounds = False
    """Whether `in_unit` rounds up or down, so that `raw` of a distance may fall short of it."""
    squared = False
    """Whether distances are the squares of those that `in_unit` gives."""
    unit_scale: float | None = None
    """Factor from a distance to the threshold axis [0, 1] of GOM; None if only min-max does."""

    def __getstate__(self) -> dict[str, Any]:
        """The space as another process gets it: it has no cluster, and makes what can be made."""
        made = ("cluster", "single", "_widened")
        return {name: value for name, value in vars(self).items() if name not in made}

    @property
    def holds_gallery(self) -> bool:
        """Whether whole rows of distances can be made in place, by `fill_rows`."""
        return False

    def fill_rows(self, rows: Rows, out: Distances) -> None:
        """Put the distances of these queries to the whole gallery into `out`."""
        out[...] = self.block(rows)(0, self.gallery)

    @property
    def refers(self) -> bool:
        """Whether a cluster holds its rows, of which this is no more than the names."""
        return False

    @property
    def symmetric(self) -> bool:
        """Whether the queries are the gallery and a pair has one distance in both orders."""
        return False

    @cached_property
    def single(self) -> SinglePrecision | None:
        """Float32 scores that decide most comparisons, where the distance has them."""
        return None

    @abstractmethod
    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """A function of (start, stop) that gives the tile of these queries x those items."""

    @abstractmethod
    def pairs(self, query: Rows, item: Rows) -> Distances:
        """The distances of single pairs, by integer arithmetic."""

    @abstractmethod
    def in_unit(self, distances: Distances) -> Distances:
        """Distances in the unit a user thinks in: cosine 1 - s, euclidean unsquared, and so on."""

    @abstractmethod
    def fingerprints(self) -> Fingerprints:
        """A number for each query row that the order of rows, items or dimensions cannot change."""

    def vectors(self) -> Distances | None:
        """The query rows as points whose euclidean distance ranks as this space does, if any."""
        return None

    def raw(self, threshold: Fraction) -> Fraction:
        """The distance, as a rational number, that a threshold in the user's unit stands for."""
        return threshold

    def grain(self, query: Rows, item: Rows, distances: Distances) -> Distances | None:
        """By how much rounding the rows has moved distances, about; None if nothing is rounded."""
        return None

    def linear(self, distances: Distances) -> Distances:
        """Distances in a unit that ascends with them and in which thresholds may be averaged."""
        return self.in_unit(distances)

    def contents(self) -> tuple[Rows, Rows] | None:
        """A number for each query and item that follows its content, not its place, or None.

        Rows chosen by it are the same rows in whatever order they come.
        """
        return None
