"""What is known about each distance, once, and the table in which all of them are found.

Whoever lists, checks or builds distances asks here; nobody else names them one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from truerank.errors import InputError
from truerank.space.base import Space
from truerank.space.sides import Sides

__all__ = ["Distance", "find", "names", "register", "unregister"]


@dataclass(frozen=True)
class Distance:
    """A distance as a user chooses it by name."""

    name: str
    help: str
    """What it is, in a few words."""
    make: Callable[[Sides], Space]
    given: bool = False
    """Whether a (Q, G) matrix is handed over in the embeddings' place."""
    larger_is_nearer: bool = False
    """Whether the user's numbers are similarities, which a threshold accepts from itself on."""
    points: Literal["directions", "rows"] | None = None
    """Whose euclidean distance ranks as this one does, if anything's: unit vectors or the rows."""


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
    given : True for those of a matrix alone, False for those of embeddings alone
    points : True for those alone that rank as a euclidean distance of points does
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
    if not isinstance(name, str) or name not in _DISTANCES:
        raise InputError(
            f"The 'distance' parameter must be one of {', '.join(names())}. Got {name!r} instead."
        )
    return _DISTANCES[name]
