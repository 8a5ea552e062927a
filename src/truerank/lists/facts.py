"""What is to be said about lists besides their scores: length, what was wrong, what is missing."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from truerank.lists.places import Places
from truerank.task import TaskRules

__all__ = ["about", "digest", "listed_ties"]


def about(places: Places, task: TaskRules) -> dict[str, Any]:
    """Facts of the lists for a result's provenance."""
    missing = np.zeros(len(places), np.int64)
    for block in places.blocks(task.view):
        groups = block.groups
        last = groups.offsets[1:] - 1
        behind = groups.before[last] == places.lengths[block.rows]
        missing[block.rows] = np.where(behind, groups.relevant[last], 0)
    lengths = places.lengths
    judged = task.masks.get("relevance")
    by_run = judged is not None and judged.names is not None
    return {
        **({"gallery_size": task.items if places.sized else None} if by_run else {}),
        "asked": places.asked,
        "shortest": int(lengths.min()),
        "longest": int(lengths.max()),
        "taken_out": int(places.taken_out.sum()),
        "repeated": places.repeated,
        "unknown": places.unknown,
        "missing": {"queries": int(np.count_nonzero(missing)), "mates": int(missing.sum())},
    }


def listed_ties(places: Places, task: TaskRules) -> dict[str, int]:
    """Ties by returned scores between relevant and other items: queries, and groups."""
    queries = total = 0
    for block in places.blocks(task.view):
        groups = block.groups
        owner = np.repeat(block.rows, np.diff(groups.offsets))
        listed = groups.before < places.lengths[owner]
        mixed = groups.ambiguous & listed
        queries += len(np.unique(owner[mixed]))
        total += int(mixed.sum())
    return {"queries": queries, "groups": total}


def digest(places: Places) -> str:
    """A fingerprint of what was returned, as it counts."""
    found = blake2b(digest_size=16)
    for array in (places.offsets, places.item, np.unique(places.run, return_inverse=True)[1]):
        found.update(np.ascontiguousarray(array, "<i8").tobytes())
    return found.hexdigest()
