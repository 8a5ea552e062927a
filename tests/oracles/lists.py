"""What a list can mean: every order of the gallery that agrees with it, listed one by one.

In: what was returned for one query, what the query never meets, and how relevant each item is. Out:
a distance for each place and for each item that was not returned, over whose orders the oracles of
rankings take minimum, mean and maximum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

from tests.oracles import hierarchy, ranking

BEHIND = 10**9
"""The distance of everything that was not returned."""


@dataclass
class Judged:
    """One query's list in the eyes of the rules."""

    distances: list[int]
    levels: list[int]
    eligible: list[int]
    """The levels of the items that could have been found."""
    repeated: int = 0
    unknown: int = 0

    def triple(self, metric: str, depth: int = 1) -> ranking.Triple | None:
        return hierarchy.triple(metric, depth, self.distances, self.levels)

    def chance(self, metric: str, depth: int = 1) -> Fraction | None:
        return hierarchy.chance(metric, depth, self.eligible)


def judge(
    returned: Sequence[Any],
    scores: Sequence[float | None] | None,
    items: Sequence[Any],
    never: Callable[[int], bool],
    level: Callable[[int], int],
) -> Judged:
    """`items` are the names by which items are returned; -1 says that nothing was.

    Places that follow each other tie if their scores are equal; None is equal to nothing.
    """
    judged = Judged([], [], [])
    seen: set[int] = set()
    last = (object(), -1)
    for place, name in enumerate(returned):
        if name not in items and name == -1:
            continue
        if name in items and never(list(items).index(name)):
            continue
        value = object() if scores is None or scores[place] is None else scores[place]
        last = (value, last[1] if value == last[0] else place)
        judged.distances.append(last[1])
        if name not in items:
            judged.unknown += 1
            judged.levels.append(0)
            continue
        item = list(items).index(name)
        judged.repeated += item in seen
        judged.levels.append(0 if item in seen else level(item))
        seen.add(item)
    for item in range(len(items)):
        if not never(item):
            judged.eligible.append(level(item))
            if item not in seen:
                judged.distances.append(BEHIND)
                judged.levels.append(level(item))
    return judged


def cut(metric: str, depth: int, distances: Sequence[Any], levels: Sequence[int], k: int) -> Any:
    """Minimum, mean and maximum over every order of an exact search that returns its first k, and
    every order of what it does not return."""
    if not any(levels):
        return None
    measure = hierarchy.definition(metric, depth) if _is_graded(metric) else None
    values: list[tuple[Fraction, Fraction]] = []
    for order, times in hierarchy.orders(distances, levels).items():
        rest = Counter(permutations(order[k:]))
        for tail, count in rest.items():
            whole = order[:k] + tail
            value = (
                ranking.definition(metric)(tuple(one > 0 for one in whole))
                if measure is None
                else measure(whole)
            )
            values.append((value, Fraction(times * count, rest.total())))
    total = sum((weight for _, weight in values), Fraction(0))
    mean = sum((value * weight for value, weight in values), Fraction(0)) / total
    return min(value for value, _ in values), mean, max(value for value, _ in values)


def _is_graded(metric: str) -> bool:
    return hierarchy.parse(metric)[0] in hierarchy.DEFINITIONS


def neighbour_recall(listed: Sequence[int], distances: dict[int, Any], k: int) -> Fraction | None:
    """The best overlap of the first k places with k nearest items, whichever these are."""
    size = min(k, len(distances))
    if not size:
        return None
    ranked = sorted(distances.values())
    near = {item for item, distance in distances.items() if distance < ranked[size - 1]}
    tied = [item for item, distance in distances.items() if distance == ranked[size - 1]]
    best = max(
        len(set(listed[:k]) & (near | set(chosen)))
        for chosen in combinations(tied, size - len(near))
    )
    return Fraction(best, size)
