"""Building a space from the user's arrays, by the name of a distance.

Every distance is a Distance in the table below: what is known about it, and what makes a space
from the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import DeviceMatrix
from truerank.cluster import Cluster
from truerank.space.base import Rows, Space
from truerank.space.catalogue import Distance, find, register
from truerank.space.cosine import Cosine
from truerank.space.elementwise import Cityblock
from truerank.space.given import Given
from truerank.space.hamming import hamming
from truerank.space.inner import Dot, Euclidean
from truerank.space.sides import Side, Sides

__all__ = ["build"]

Array = npt.NDArray[Any]

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
