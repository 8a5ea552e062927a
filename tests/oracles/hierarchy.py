"""The hierarchical metrics of one query, over every order that its scores allow.

In: the exact distances of the gallery items that are left after removing self and junk, and the
level of each (how many labels of its path it shares with the query) or its grade. Out: (minimum,
mean, maximum) of a metric over all orders consistent with the distances, as Fractions. Logarithms
and roots are Fractions too, right to some fifty digits.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

from tests.oracles import ranking

Order = tuple[int, ...]
"""The level (or grade) of the item at each rank, best rank first."""

GRADED = 0
"""In the place of a number of levels: the levels are grades that the user gave."""

FIFTY_DIGITS = Context(prec=60)


def agreement(query: Sequence[Any], item: Sequence[Any]) -> tuple[bool, ...]:
    """In which label columns both have the same name; a label of None is nobody's."""
    return tuple(
        mine is not None and mine == yours for mine, yours in zip(query, item, strict=True)
    )


def level(agreed: Sequence[bool]) -> int:
    """The length of the path from the root that both share."""
    return [*agreed, False].index(False)


def triple(
    metric: str, depth: int, distances: Sequence[Any], levels: Sequence[int]
) -> ranking.Triple | None:
    """Minimum, mean and maximum over all orders; None for a query that does not count.

    A metric that knows no levels takes every level but 0 for relevant.
    """
    name, _ = parse(metric)
    if not any(levels):
        return None
    if name not in DEFINITIONS:
        return ranking.triple(metric, distances, [v > 0 for v in levels])
    measure = definition(metric, depth)
    values = [(measure(order), count) for order, count in orders(distances, levels).items()]
    total = sum(count for _, count in values)
    return (
        min(value for value, _ in values),
        sum((value * count for value, count in values), Fraction(0)) / total,
        max(value for value, _ in values),
    )


def chance(metric: str, depth: int, levels: Sequence[int]) -> Fraction | None:
    """The expected value when the scores say nothing: all items tied."""
    found = triple(metric, depth, [0] * len(levels), levels)
    return None if found is None else found[1]


def parse(metric: str) -> tuple[str, dict[str, str]]:
    """``name@k,key=value`` as its name and its options; the cut-off is the option "k"."""
    name, _, rest = metric.partition("@")
    options = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        options[key if equals else "k"] = value if equals else key
    return name, options


def text(name: str, options: dict[str, str]) -> str:
    """The inverse of parse."""
    parts = [value if key == "k" else f"{key}={value}" for key, value in options.items()]
    return name + ("@" + ",".join(parts) if parts else "")


# --- every order ----------------------------------------------------------------------------------


def orders(distances: Sequence[Any], levels: Sequence[int]) -> Counter[Order]:
    """How many of the orders consistent with the distances show each sequence of levels."""
    groups = [
        tuple(sorted(v for d, v in zip(distances, levels, strict=True) if d == distance))
        for distance in sorted(set(distances))
    ]
    found: Counter[Order] = Counter()
    for parts in itertools.product(*(_orders_of_group(group).items() for group in groups)):
        order = tuple(itertools.chain.from_iterable(part for part, _ in parts))
        found[order] += prod(times for _, times in parts)
    return found


@cache
def _orders_of_group(group: Order) -> Counter[Order]:
    return Counter(itertools.permutations(group))


# --- the definitions, for one order ---------------------------------------------------------------


@cache
def definition(metric: str, depth: int) -> Callable[[Order], Fraction]:
    """The definition behind a metric string, as a function of one order."""
    name, options = parse(metric)
    return cache(lambda order: DEFINITIONS[name](order, depth, **options))


def h_ap(order: Order, depth: int, *, alpha: str = "1", rel: str | None = None) -> Fraction:
    if depth == GRADED:
        by_level = {grade: Fraction(grade) for grade in order}
    elif rel is not None:
        by_level = dict(enumerate(map(Fraction, ["0", *rel.split(":")])))
    else:
        by_level = level_relevance(order, depth, alpha)
    return hierarchical_average_precision([by_level[v] for v in order])


def sum_wap(order: Order, depth: int, *, weights: str | None = None) -> Fraction:
    """H-AP of the relevance that makes it a weighted mean of the levels' average precisions."""
    each = [Fraction(w) for w in weights.split(":")] if weights else [Fraction(1)] * depth
    by_level = {
        v: sum(
            (each[p - 1] / sum(other >= p for other in order) for p in range(1, v + 1)),
            Fraction(0),
        )
        for v in order
    }
    return hierarchical_average_precision([by_level[v] for v in order])


def level_relevance(order: Sequence[int], depth: int, alpha: str = "1") -> dict[int, Fraction]:
    """Eq. 4 for each level present: its weight, shared by the items of exactly that level."""
    return {
        v: power(Fraction(v, depth), alpha) / list(order).count(v) if v else Fraction(0)
        for v in order
    }


def power(base: Fraction, exponent: str) -> Fraction:
    if Fraction(exponent).denominator == 1:
        return base ** int(Fraction(exponent))
    quotient = FIFTY_DIGITS.divide(Decimal(base.numerator), Decimal(base.denominator))
    return Fraction(FIFTY_DIGITS.power(quotient, Decimal(exponent)))


def hierarchical_rank(relevances: Sequence[Fraction], k: int) -> Fraction:
    """Eq. 2; the items come in their order, so those before k are those that stand before it."""
    rank = relevances[k]
    for j in range(k):
        rank += min(relevances[k], relevances[j])
    return rank


def hierarchical_average_precision(relevances: Sequence[Fraction]) -> Fraction:
    """Eq. 3."""
    total = Fraction(0)
    for k, relevance in enumerate(relevances):
        if relevance > 0:
            total += hierarchical_rank(relevances, k) / (k + 1)
    return total / sum(relevances)


def asi(order: Order, depth: int) -> Fraction:
    """Average set intersection: the mean, over depths, of what the ideal list shares with ours."""
    ideal = sorted(order, reverse=True)
    positives = sum(v >= 1 for v in order)
    total = Fraction(0)
    for n in range(1, positives + 1):
        for v in set(order) - {0}:
            total += Fraction(min(order[:n].count(v), ideal[:n].count(v)), n)
    return total / positives


def ndcg(order: Order, depth: int, *, k: str | None = None, gain: str = "exponential") -> Fraction:
    gains = [Fraction(v if gain == "linear" else 2**v - 1) for v in order]
    cut = len(order) if k is None else int(k)
    ideal = sorted(gains, reverse=True)
    return _discounted_sum(gains[:cut]) / _discounted_sum(ideal[:cut])


def _discounted_sum(gains: Sequence[Fraction]) -> Fraction:
    return sum((gain * discount(rank) for rank, gain in enumerate(gains, start=1)), Fraction(0))


@cache
def discount(rank: int) -> Fraction:
    """1 / log2(1 + rank)."""
    two, after = FIFTY_DIGITS.ln(Decimal(2)), FIFTY_DIGITS.ln(Decimal(1 + rank))
    return Fraction(FIFTY_DIGITS.divide(two, after))


DEFINITIONS: dict[str, Callable[..., Fraction]] = {
    "h_ap": h_ap,
    "sum_wap": sum_wap,
    "asi": asi,
    "ndcg": ndcg,
}


# --- what is said beside the metrics --------------------------------------------------------------


def is_monotone(levels: Sequence[int], depth: int) -> bool:
    """Whether, by Eq. 4, no item of a finer level is worth less than one of a coarser level."""
    relevance = level_relevance(levels, depth)
    return all(
        relevance[coarse] <= relevance[fine]
        for coarse in relevance
        for fine in relevance
        if 1 <= coarse < fine
    )


def worst_first_level(distances: Sequence[Any], levels: Sequence[int]) -> int:
    """The level of the nearest item; of several nearest ones, the lowest level."""
    return min(v for d, v in zip(distances, levels, strict=True) if d == min(distances))
