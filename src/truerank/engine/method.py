"""The method: how few relevant items are counted at the least cost, watched or not."""

from __future__ import annotations

from truerank.engine.both_ways import BothWays
from truerank.engine.watch import Audience
from truerank.relevance import View
from truerank.settings import Settings
from truerank.space import Rows, Space

__all__ = ["each_pair_once", "method_of", "shows_each_pair_once"]

_SMALL = 1 << 22
"""Pairs below which the plain way is as fast."""


def method_of(
    space: Space, mates: Rows, limits: Settings, *, split: bool = False, watched: bool = False
) -> str:
    """The method that the settings name, or the one that costs least; watchers see float64."""
    if not len(mates) or (not watched and space.single is None):
        return "float64"
    square = space.symmetric
    if limits.method == "symmetric" and not square:
        return "filter"
    if limits.method != "auto":
        return limits.method
    if len(mates) * space.gallery < _SMALL:
        return "float64"
    # Half of all tiles cost as much as the rows of half of the queries.
    most = limits.symmetric_mates // 8 if split else limits.symmetric_mates
    fits = int(mates.sum()) <= most
    if watched:
        return "symmetric" if square and fits else "float64"
    return "symmetric" if square and fits and 2 * len(mates) > space.gallery else "filter"


def each_pair_once(
    view: View, space: Space, audience: Audience, limits: Settings, *, split: bool
) -> BothWays | None:
    """Each pair computed once for watchers of all queries, where it can be and pays."""
    mates = view.mates[view.mates > 0]
    if audience.whole_rows or (mates > limits.sort_share * space.gallery).any():
        return None
    if method_of(space, mates, limits, split=split, watched=True) != "symmetric":
        return None
    return BothWays.of(view, limits.side, limits.symmetric_mates)


def shows_each_pair_once(
    view: View, space: Space, audience: Audience, limits: Settings
) -> BothWays | None:
    """The same where no tie groups are wanted."""
    pays = limits.method == "symmetric" or (
        limits.method == "auto" and space.queries * space.gallery >= _SMALL
    )
    if audience.whole_rows or not space.symmetric or not pays:
        return None
    return BothWays.of(view, limits.side, limits.symmetric_mates)
