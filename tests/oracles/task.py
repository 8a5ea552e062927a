"""Who is compared with whom: self and junk removed, one query and one gallery item at a time.

In: labels, ids, groups and masks as the user gives them. Out: for each query the gallery items
that are left, whether each is relevant, and, when none is, the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

SINGLETON = "singleton"
ALL_MATES_JUNK = "all mates junk"
NOT_IN_GALLERY = "not in gallery"
UNJUDGED = "unjudged"


@dataclass(frozen=True)
class Query:
    """What is left of the gallery for one query."""

    items: list[int]
    relevant: list[bool]
    reason: str | None
    """Why no relevant item is left; None when there is one."""


def queries(
    labels: Sequence[Any] | None,
    gallery_labels: Sequence[Any] | None = None,
    *,
    query_ids: Sequence[Any] | None = None,
    gallery_ids: Sequence[Any] | None = None,
    query_groups: Sequence[Any] | None = None,
    gallery_groups: Sequence[Any] | None = None,
    junk: Sequence[Sequence[bool]] | None = None,
    junk_labels: Collection[Any] = (),
    relevance: Sequence[Sequence[bool]] | None = None,
    leave_one_out: bool,
) -> list[Query]:
    """The queries of a task. In leave-one-out ``query_*`` describes the gallery as well."""
    if leave_one_out:
        gallery_labels, gallery_ids, gallery_groups = labels, query_ids, query_groups
    sides = (labels, gallery_labels) if relevance is None else (relevance, relevance[0])
    assert sides[0] is not None
    assert sides[1] is not None
    found = []
    for q in range(len(sides[0])):
        items, relevant = [], []
        selves = mates = 0  # relevant items that are the query itself; that are not, junk or not
        for g in range(len(sides[1])):
            same_label = (
                labels is not None and gallery_labels is not None and labels[q] == gallery_labels[g]
            )
            is_relevant = bool(relevance[q][g]) if relevance is not None else same_label
            is_self = leave_one_out and q == g
            if query_ids is not None and gallery_ids is not None and query_ids[q] == gallery_ids[g]:
                is_self = True
            is_junk = junk is not None and bool(junk[q][g])
            if gallery_labels is not None and gallery_labels[g] in junk_labels:
                is_junk = True
            if query_groups is not None and gallery_groups is not None:
                is_junk = is_junk or (same_label and query_groups[q] == gallery_groups[g])
            if is_self:
                selves += is_relevant
                continue
            mates += is_relevant
            if is_junk:
                continue
            items.append(g)
            relevant.append(is_relevant)
        if any(relevant):
            reason = None
        elif mates:
            reason = ALL_MATES_JUNK
        else:
            nobody = NOT_IN_GALLERY if relevance is None else UNJUDGED
            reason = SINGLETON if selves else nobody
        found.append(Query(items, relevant, reason))
    return found
