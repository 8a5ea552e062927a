"""The catalogue of distances: what is known about each, once; build.py fills it.

Code that lists, checks or builds distances asks here; nothing else names them one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from truerank.errors import check_choice
from truerank.space.base import Space
from truerank.space.sides import Sides

__all__ = ["Distance", "find", "names", "register", "unregister"]


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
