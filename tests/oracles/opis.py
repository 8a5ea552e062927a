"""OPIS by its definition: utilities of classes as step functions of the threshold, in Fractions.

In: pairs (distance, classes of its two ends). Out: means over a range of thresholds; distances are
turned into places on the axis of integration by a function that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

Pair = tuple[Fraction, Any, Any]


class Classes:
    """All classes that have positives and negatives."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        names = sorted({name for _, a, b in pairs for name in (a, b)}, key=str)
        self.positives = {c: [d for d, a, b in pairs if a == b == c] for c in names}
        self.negatives = {c: [d for d, a, b in pairs if (a == c) != (b == c)] for c in names}
        self.names = [c for c in names if self.positives[c] and self.negatives[c]]

    def sensitivity(self, name: Any, tau: Fraction) -> Fraction:
        return Fraction(sum(d <= tau for d in self.positives[name]), len(self.positives[name]))

    def specificity(self, name: Any, tau: Fraction) -> Fraction:
        return Fraction(sum(d > tau for d in self.negatives[name]), len(self.negatives[name]))

    def precision(self, name: Any, tau: Fraction) -> Fraction:
        true = sum(d <= tau for d in self.positives[name])
        false = sum(d <= tau for d in self.negatives[name])
        return Fraction(true, true + false) if true + false else Fraction(0)


def utility(other: Fraction, sensitivity: Fraction, c: int = 1) -> Fraction:
    below = c * c * other + sensitivity
    return (1 + c * c) * other * sensitivity / below if below else Fraction(0)


def mean_over(
    steps: Sequence[Fraction],
    low: Fraction,
    high: Fraction,
    place: Callable[[Fraction], float],
    value: Callable[[Fraction], Fraction],
) -> float:
    """The mean over [low, high] of a function that changes only at these thresholds."""
    points = sorted({low, high, *(d for d in steps if low < d < high)})
    total = sum(float(value(a)) * (place(b) - place(a)) for a, b in pairwise(points))
    return total / (place(high) - place(low))


def variance(classes: Classes, tau: Fraction, c: int = 1, precise: bool = False) -> Fraction:
    other = classes.precision if precise else classes.specificity
    values = [utility(other(n, tau), classes.sensitivity(n, tau), c) for n in classes.names]
    centre = sum(values) / len(values)
    return sum((u - centre) ** 2 for u in values) / len(values)


def divide(
    classes: Classes,
    eps: Fraction,
    low: Fraction,
    high: Fraction,
    steps: Sequence[Fraction],
    place: Callable[[Fraction], float],
) -> float:
    """eps-OPIS; classes tied at the cut share the remaining weight."""

    def own(name: Any) -> Callable[[Fraction], Fraction]:
        return lambda tau: utility(classes.specificity(name, tau), classes.sensitivity(name, tau))

    means = {n: round(mean_over(steps, low, high, place, own(n)), 12) for n in classes.names}
    groups = []
    count = ceil(eps * len(means))
    for sign in (1, -1):
        ranked = sorted(sign * value for value in means.values())
        cut = ranked[count - 1]
        below = [n for n in means if sign * means[n] < cut]
        tied = [n for n in means if sign * means[n] == cut]
        share = Fraction(count - len(below), len(tied))
        groups.append([(n, Fraction(1)) for n in below] + [(n, share) for n in tied])

    def of(group: list[tuple[Any, Fraction]], tau: Fraction) -> Fraction:
        specificity = sum(w * classes.specificity(n, tau) for n, w in group) / count
        return utility(specificity, sum(w * classes.sensitivity(n, tau) for n, w in group) / count)

    return mean_over(
        steps, low, high, place, lambda tau: (of(groups[0], tau) - of(groups[1], tau)) ** 2
    )


def lowest_digests(
    pairs: Sequence[tuple[Fraction, Any, int, int]], wanted: dict[Any, int], seed: int
) -> dict[Any, list[Fraction]]:
    """The distances that are drawn: all negative pairs are listed, and each class takes its first.

    In: (distance, class of the query, contents of the query's row and of the item's, as numbers) of
    every negative pair of two rows that meet.
    """

    def row(contents: int) -> int:
        return scrambled(contents + scrambled(seed + 1))

    found: dict[Any, list[tuple[int, Fraction]]] = {}
    for distance, name, query, item in pairs:
        digest = scrambled(row(query)) + scrambled(WORD - 1 - row(item))
        found.setdefault(name, []).append((digest % WORD, distance))
    return {
        name: [distance for _, distance in sorted(found.get(name, []))[:count]]
        for name, count in wanted.items()
    }


WORD = 1 << 64


def scrambled(number: int) -> int:
    """The finaliser of splitmix64."""
    z = number % WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31
