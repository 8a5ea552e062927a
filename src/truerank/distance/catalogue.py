"""Catalogue of all distances by name, and `build`, which makes one from the user's arrays.

Code that lists, checks or builds distances asks the catalogue. A new distance is one entry in
the table here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from truerank._util.arrays import DeviceMatrix
from truerank._util.cluster import Cluster
from truerank._util.errors import check_choice
from truerank._util.types import Array
from truerank.distance.base import Given, Rows, Side, Sides, Space
from truerank.distance.cosine import Cosine
from truerank.distance.elementwise import Cityblock, hamming
from truerank.distance.inner_product import Dot, Euclidean

# The catalogue of distances: what is known about each, once.
#
# Code that lists, checks or builds distances asks here; nothing else names them one by one.


@dataclass(frozen=True)
class Distance:
    """A distance as a user chooses it by name."""

    name: str
    help: str
    """What the distance is, in a few words."""
    make: Callable[[Sides], Space]
    given: bool = False
    """Whether a (Q, G) matrix is handed over in the embeddings' place."""
    larger_is_nearer: bool = False
    """Whether the user's numbers are similarities, which a threshold accepts from itself on."""
    zeros: str | None = ""
    """What to say of rows of zeros besides their number; None where they are rows like others."""
    points: Literal["directions", "rows"] | None = None
    """Points whose euclidean distance ranks as this one does: unit vectors or rows, if any."""
    on_device: bool = False
    """Whether a GPU can round the rows, which then stay there."""


_DISTANCES: dict[str, Distance] = {}


def register(distance: Distance) -> None:
    """Add a distance; it is then accepted, listed and built like all others."""
    if distance.name in _DISTANCES:
        raise ValueError(f"distance {distance.name!r} is registered twice")
    _DISTANCES[distance.name] = distance


def unregister(name: str) -> None:
    """Take a distance out of the table again."""
    del _DISTANCES[name]


def names(*, given: bool | None = None, points: bool = False) -> tuple[str, ...]:
    """Registered distances, in order.

    Parameters
    ----------
    given : True for distances of a matrix only, False for those of embeddings only
    points : True for only those that rank as a euclidean distance of points does
    """
    return tuple(
        one.name
        for one in _DISTANCES.values()
        if given in (None, one.given) and (one.points is not None or not points)
    )


def find(name: Any) -> Distance:
    """The distance of this name; InputError lists what there is.

    Examples
    --------
    >>> find("similarity").larger_is_nearer
    True
    """
    check_choice("distance", name, names())
    return _DISTANCES[name]


# Building a space from the user's arrays, by the name of a distance.
#
# Every distance is a Distance in the table below: what is known about it, and what makes a space
# from the rows.


for _known in (
    Distance(
        "cosine",
        "1 - cosine similarity",
        Cosine.of,
        zeros=", at cosine 0 to everything",
        points="directions",
        on_device=True,
    ),
    Distance("euclidean", "length of the difference", Euclidean.of, points="rows"),
    Distance("dot", "the inner product with its sign turned", Dot.of),
    Distance("cityblock", "sum of absolute differences", Cityblock.of),
    Distance("hamming", "number of unequal components", hamming, zeros=None),
    Distance("precomputed", "a matrix of distances", Given.of_distances, given=True),
    Distance(
        "similarity",
        "a matrix in which larger is nearer",
        Given.of_similarities,
        given=True,
        larger_is_nearer=True,
    ),
):
    register(_known)


def build(
    distance: str,
    queries: Array,
    gallery: Array | None = None,
    columns: Rows | None = None,
    *,
    threads: int | None = None,
    device: str | None = None,
    cluster: Cluster | None = None,
) -> Space:
    """The space of this distance.

    Parameters
    ----------
    distance : one of catalogue.names()
    queries : (Q, d) embeddings, or the (Q, G) matrix of a distance that is given as one
    gallery : (G, d) embeddings; None if the queries are their own gallery
    columns : gallery rows that take part; None for all
    threads : most threads that round rows; a few by default
    device : a device of torch on which rows are rounded and stay, where the distance can
    cluster : whose workers read shards and round them
    """
    known = find(distance)
    if device is None or not known.on_device or columns is not None:
        same, queries = gallery is queries, _fetched(queries)
        device, gallery = None, queries if same else _fetched(gallery)
    if known.given:
        sides = Sides(distance, Side(f"the {distance} matrix", queries, None), columns=columns)
    else:
        both = [Side("embeddings", queries, None, threads, device, cluster)]
        if gallery is queries and columns is None:
            both.append(both[0])
        elif gallery is not None:
            both.append(Side("gallery", gallery, columns, threads, device, cluster))
        elif columns is not None:
            both.append(Side("embeddings", queries, columns, threads, None, cluster))
        sides = Sides(distance, *both)
    space = known.make(sides)
    space.query_digests = space.gallery_digests = sides.queries.digests
    if sides.gallery is not sides.queries:
        space.gallery_digests = sides.gallery.digests
    return space


def _fetched(rows: Any) -> Any:
    """Rows in main memory."""
    return np.asarray(rows) if isinstance(rows, DeviceMatrix) else rows
