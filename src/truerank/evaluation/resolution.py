"""Whether the grid can tell a model's rows apart: a warning where rounding decides the ranking.

Rows that share a direction and differ by little more than a step of the grid are ranked, exactly
and reproducibly, by what rounding made of them. Some queries' mates say cheaply whether that can
be; only then are some whole rows of distances looked at.
"""

from __future__ import annotations

import numpy as np

from truerank.errors import warn
from truerank.relevance import View
from truerank.space import Rows, Space
from truerank.space.digests import first_by_content

__all__ = ["warn_if_too_coarse"]

QUERIES = 64
"""Queries that are looked at."""
PAIRS = 1 << 22
"""Most distances that are looked at."""
ITEMS = 1 << 16
"""Items whose distances are made at once."""
FINE = 1e-3
"""Rounding that moves the distances of mates by less than this share of them is no matter."""
SHARE = 0.1
"""Mates that may lie as near to another item as rounding moves them."""


def warn_if_too_coarse(space: Space, view: View) -> None:
    """Warn, and note among the space's facts, where many mates and others lie within rounding."""
    rows = _sample(space, view)
    if not len(rows):
        return
    pairs = view.relevant(rows)
    distance = space.pairs(rows[pairs.query], pairs.item)
    grain = space.grain(rows[pairs.query], pairs.item, distance)
    if grain is None:
        return
    moved = (grain > FINE * distance) & (distance > 0)
    if 2 * np.count_nonzero(moved) <= len(moved):
        return
    rows = rows[: max(1, PAIRS // space.gallery)]
    close = mates = 0
    for place, row in enumerate(rows):
        mine, block = rows[place : place + 1], view.block(rows[place : place + 1])
        tile = space.block(mine)
        found = np.concatenate(
            [
                tile(start, min(start + ITEMS, space.gallery))[0]
                for start in range(0, space.gallery, ITEMS)
            ]
        )
        others = np.ones(space.gallery, bool)
        others[block.relevant.item] = others[block.excluded.item] = False
        among = np.sort(found[others])
        own = found[block.relevant.item]
        grain = space.grain(np.full(len(own), row), block.relevant.item, own)
        if grain is None or not len(among):
            continue
        low, high = among.searchsorted(own - grain), among.searchsorted(own + grain, "right")
        close += int(np.count_nonzero(high > low))
        mates += len(own)
    if close <= SHARE * mates:
        return
    note = (
        f"the rows lie so close together that the grid ({space.facts.grid}) decides the ranking: "
        f"{close:,} of {mates:,} mates of {len(rows):,} queries are no farther from an item of "
        "another class than rounding moves a distance"
    )
    space.facts.notes.append(note)
    warn(f"{note}; if the direction that all rows share means nothing, subtract their mean.")


def _sample(space: Space, view: View) -> Rows:
    """Some queries with a mate, chosen by what their rows hold, not by where they stand."""
    rows = np.flatnonzero(view.mates)
    if len(space.query_digests) != space.queries:
        return rows[:0]
    return rows[first_by_content(space.query_digests[rows], QUERIES)]
