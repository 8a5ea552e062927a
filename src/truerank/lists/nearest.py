"""Lists against exact search, by vectors or by a file of exact neighbours: the distance of each
place, and the share of the true neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError, shortened
from truerank.files import is_path, read_archive
from truerank.files.lists import read_lists
from truerank.files.paths import as_path
from truerank.lists.places import Places
from truerank.lists.returned import UNKNOWN, Returned
from truerank.relevance import Exclusions
from truerank.space import Space
from truerank.task import TaskRules
from truerank.wording import count

__all__ = ["Compared", "compare_with_exact", "compare_with_neighbors", "depth"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
PAIRS = 1 << 22
"""Most distances that are held at a time, but for a single row."""


@dataclass(frozen=True)
class Compared:
    """What exact search says about lists."""

    distance: Reals
    """The exact distance in each place, NaN for what is no gallery item."""
    recall: Reals
    """neighbour_recall of each query, NaN where it has nothing to find at all."""


def compare_with_exact(
    space: Space,
    exclusions: Exclusions,
    places: Places,
    k: int,
    tick: Callable[[int, int], None],
) -> Compared:
    """The distances of what was returned, and how much of the k nearest that is.

    Of the first k places those count that are strictly nearer than the k-th nearest item, and of
    those at its distance as many as the k nearest hold; each item once. Divided by k, or by the
    number of items where these are fewer.
    """
    queries = len(places)
    distance = np.full(len(places.item), np.nan)
    recall = np.full(queries, np.nan)
    step = max(1, PAIRS // space.gallery)
    for start in range(0, queries, step):
        rows = np.arange(start, min(start + step, queries))
        block = np.array(space.block(rows)(0, space.gallery))
        never = exclusions.pairs(rows, space.gallery)
        block[never.query, never.item] = np.inf
        span = slice(*places.offsets[[start, start + len(rows)]])
        query = np.repeat(np.arange(len(rows)), places.lengths[rows])
        named = places.named[span]
        known = named != UNKNOWN
        distance[span][known] = block[query[known], named[known]]

        most = min(k, space.gallery)
        nearest = np.partition(block, most - 1, axis=1)[:, :most]
        nearest.sort(axis=1)
        divisor = np.minimum(most, places.eligible[rows])
        last = nearest[np.arange(len(rows)), np.maximum(divisor, 1) - 1]
        nearer = (nearest < last[:, None]).sum(axis=1)
        place = np.arange(span.start, span.stop) - places.offsets[rows][query]
        counts = (places.item[span] != UNKNOWN) & (place < k)
        found, at = query[counts], distance[span][counts]
        strictly = np.bincount(found[at < last[found]], minlength=len(rows))
        tied = np.bincount(found[at == last[found]], minlength=len(rows))
        right = strictly + np.minimum(tied, divisor - nearer)
        some = divisor > 0
        recall[rows[some]] = right[some] / divisor[some]
        tick(start + len(rows), queries)
    return Compared(distance, recall)


def depth(k: Any, places: Places) -> int:
    """How many neighbours are looked for: k, or the places left for eligible items."""
    if k is None:
        return max(1, int((places.asked - places.taken_out).min()))
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"The 'k' parameter must be an int >= 1. Got {shortened(k)} instead.")
    return int(k)


def compare_with_neighbors(
    source: Any, task: TaskRules, places: Places, k: int | None
) -> tuple[int, Reals]:
    """k, and neighbour_recall of each query, NaN where it has nothing to find at all.

    `source` is what `truth` found, or its file. Its lists are those of exact search, under the
    rules of the task as well; without a k, it is no larger than the shortest of them.
    """
    lists, ties, tied = _exact(source)
    found = Returned.of(lists, ties, queries=task.queries, items=task.gallery_size, named_by="row")
    exact = Places.of(found, task)
    if exact.unknown or exact.repeated:
        raise InputError("exact_neighbors must list rows of the gallery, each once per query.")
    most = depth(k, places)
    if k is None:
        most = max(1, min(most, int(exact.lengths.min())))
    wanted = np.minimum(most, places.eligible)
    short = np.flatnonzero(exact.lengths < wanted)
    if len(short):
        raise InputError(
            f"exact_neighbors hold {exact.lengths[short].min():,} neighbours of "
            f"{count(len(short), 'query')} once its own row and junk are taken out, but "
            f"neighbour_recall@{most} needs {wanted[short[0]]:,}; pass a smaller k, or have truth "
            "write more."
        )
    some = np.flatnonzero(wanted)
    recall = np.full(task.queries, np.nan)
    last = exact.run[exact.offsets[some] + wanted[some] - 1]
    if tied is not None:
        end = found.run[found.offsets[some + 1] - 1]
        held = np.bincount(found.run, minlength=int(found.run.max()) + 1)
        open_ = (last == end) & (tied[some] > held[end]) & (exact.lengths < places.eligible)[some]
        if open_.any():
            raise InputError(
                f"{count(int(open_.sum()), 'query')} could have other items among the {most} "
                "nearest, which exact_neighbors do not list: further ones are exactly as near. "
                "Pass a smaller k, or have truth write more."
            )
    # runs count on from query to query, so that a run is of one query
    limit = np.full(task.queries, -1)
    limit[some] = last
    query = np.repeat(np.arange(task.queries), exact.lengths)
    key = query * task.items + exact.item
    nearer, at_last = exact.run < limit[query], exact.run == limit[query]
    owner = np.repeat(np.arange(task.queries), places.lengths)
    place = np.arange(len(owner)) - places.offsets[owner]
    counts = (places.item != UNKNOWN) & (place < most)
    listed = owner[counts] * task.items + places.item[counts]

    def right(which: npt.NDArray[np.bool_]) -> Integers:
        return np.bincount(owner[counts][np.isin(listed, key[which])], minlength=task.queries)

    free = wanted - np.bincount(query[nearer], minlength=task.queries)
    hits = right(nearer) + np.minimum(right(at_last), free)
    recall[some] = hits[some] / wanted[some]
    return most, recall


def _exact(source: Any) -> tuple[Any, Any, Integers | None]:
    """Lists, numbers or distances that are equal where places tie, and the items that tie with
    the last place of each; None where that is not known."""
    if not is_path(source):
        if not hasattr(source, "tied"):
            raise InputError(
                "exact_neighbors must be the file that truth wrote, or what it returned. "
                f"Got {shortened(source)} instead."
            )
        return source.item, source.first, source.tied
    found = read_lists(source)
    path = as_path(source)
    beside = path.with_name(path.name + ".ties.npz")
    if not beside.exists():
        return found.neighbours, found.scores, None
    ties = read_archive(beside)
    if {"first", "tied"} - set(ties) or ties["first"].shape != np.shape(found.neighbours):
        raise InputError(f"{beside} does not belong to {path}: its lists are of another shape.")
    return found.neighbours, ties["first"], ties["tied"]
