"""What a list can mean: every order of the gallery that agrees with it, listed one by one.

In: what was returned for one query, what the query never meets, and how relevant each item is. Out:
a distance for each place and for each item that was not returned, over whose orders the oracles of
rankings take minimum, mean and maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
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
    scores: Sequence[float] | None,
    items: Sequence[Any],
    never: Callable[[int], bool],
    level: Callable[[int], int],
) -> Judged:
    """`items` are the names by which items are returned; -1 says that nothing was."""
    judged = Judged([], [], [])
    seen: set[int] = set()
    for place, name in enumerate(returned):
        distance = place if scores is None else list(scores).index(scores[place])
        if name not in items:
            if name != -1:
                judged.unknown += 1
                judged.distances.append(distance)
                judged.levels.append(0)
            continue
        item = list(items).index(name)
        if never(item):
            continue
        judged.repeated += item in seen
        judged.distances.append(distance)
        judged.levels.append(0 if item in seen else level(item))
        seen.add(item)
    for item in range(len(items)):
        if not never(item):
            judged.eligible.append(level(item))
            if item not in seen:
                judged.distances.append(BEHIND)
                judged.levels.append(level(item))
    return judged
