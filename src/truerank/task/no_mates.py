"""Why queries have nothing to find: alone in their class, all mates junk, not in the gallery, or
without a judgement that says what is relevant to them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.arrays import name_rows
from truerank.errors import InputError
from truerank.labels import Codes
from truerank.pairs import Mask, count_matches

__all__ = [
    "NO_MATE_REASONS",
    "Sides",
    "blocked_by_group",
    "by_judgements",
    "by_labels",
    "refuse",
]

Sides = tuple[Codes, Codes]
"""A code for each query and for each gallery item."""

NO_MATE_REASONS = ("singleton", "all mates junk", "not in gallery", "unjudged")
SINGLETON, ALL_JUNK, NOT_IN_GALLERY, UNJUDGED = range(4)


def by_labels(mates: Codes, labels: Sides, ids: Sides | None, leave_one_out: bool) -> Codes:
    """Index into NO_MATE_REASONS for each no-mate query, -1 for the others."""
    reason, none = _nobody(mates)
    if not none.size:
        return reason
    same_label = count_matches(*_columns(labels))
    others = same_label.copy()
    if ids is not None:
        others -= count_matches(*_columns(labels, ids))
    alone = SINGLETON if leave_one_out else NOT_IN_GALLERY
    reason[none] = np.where(
        others[none] > 0, ALL_JUNK, np.where(same_label[none] > 0, SINGLETON, alone)
    )
    return reason


def by_judgements(mates: Codes, relevance: Mask, ids: Sides | None) -> Codes:
    """The same where judgements say who is relevant."""
    reason, none = _nobody(mates)
    if not none.size:
        return reason
    pairs = relevance.pairs(none, None)
    reason[none] = UNJUDGED
    reason[none[pairs.query]] = SINGLETON
    if ids is not None:
        pairs = pairs.where(ids[0][none][pairs.query] != ids[1][pairs.item])
    reason[none[pairs.query]] = ALL_JUNK
    return reason


def _nobody(mates: Codes) -> tuple[Codes, Codes]:
    """No reason for any query yet, and the queries that need one."""
    return np.full(len(mates), -1, np.int64), np.flatnonzero(mates == 0)


def blocked_by_group(
    mates: Codes, labels: Sides, groups: Sides, ids: Sides | None
) -> npt.NDArray[np.bool_]:
    """No-mate queries that have a mate of their own group."""
    found = count_matches(*_columns(labels, groups))
    if ids is not None:
        found -= count_matches(*_columns(labels, groups, ids))
    none: npt.NDArray[np.bool_] = mates == 0
    return none & (found > 0)


def _columns(*keys: Sides) -> tuple[list[Codes], list[Codes]]:
    return [query for query, _ in keys], [item for _, item in keys]


def refuse(mates: Codes, counts: dict[str, int], by_group: bool) -> None:
    """Say how many queries have no mate, why, and which ones."""
    parts = ", ".join(f"{count} {name}" for name, count in counts.items())
    hint = " (mates that share the query's group are junk: check query_groups)" if by_group else ""
    where = name_rows(np.flatnonzero(mates == 0))
    raise InputError(
        f"{sum(counts.values())} of {len(mates)} queries have no mate in the gallery: "
        f"{parts}{hint}; {where}; pass no_mate='report' to leave them out."
    )
