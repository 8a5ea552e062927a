"""Metrics of one query on average over every sub-gallery, as Fractions.

The relevant items stay; of the others every choice of so many is as likely as any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import comb
from typing import Any

from tests.oracles import ranking


def sub_galleries(relevant: Sequence[bool], drawn: int) -> Iterator[list[int]]:
    """The items of every sub-gallery with so many others, by their places."""
    mates = [place for place, is_mate in enumerate(relevant) if is_mate]
    others = [place for place, is_mate in enumerate(relevant) if not is_mate]
    for chosen in itertools.combinations(others, drawn):
        yield sorted([*mates, *chosen])


def triple(
    metric: str, distances: Sequence[Any], relevant: Sequence[bool], drawn: int
) -> ranking.Triple:
    """Means over sub-galleries of the minimum, mean and maximum over orders."""
    found = [
        ranking.triple(metric, [distances[g] for g in items], [relevant[g] for g in items])
        for items in sub_galleries(relevant, drawn)
    ]
    low, mean, high = (sum(ends, Fraction(0)) / len(found) for ends in zip(*found, strict=True))
    return low, mean, high


def expectation(
    function: Callable[[int], Fraction], others: int, before: int, drawn: int
) -> Fraction:
    """E[f(X)], X the number of the `before` others among `drawn` of all, term by term."""
    total = Fraction(0)
    for x in range(max(0, drawn - others + before), min(before, drawn) + 1):
        total += function(x) * comb(before, x) * comb(others - before, drawn - x)
    return total / comb(others, drawn)


def drawn_of(others: int, size: int, gallery: int) -> int:
    """m = round(M n / N)."""
    return round(Fraction(others * size, gallery))
