"""The ranking metrics of one query, over every order that its scores allow.

In: the exact distances of the gallery items that are left after removing self and junk, and which
of them are relevant. Out: (minimum, mean, maximum) of a metric over all orders consistent with the
distances, as Fractions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

Pattern = tuple[bool, ...]
"""Which ranks hold a relevant item, best rank first."""

Triple = tuple[Fraction, Fraction, Fraction]


def triple(metric: str, distances: Sequence[Any], relevant: Sequence[bool]) -> Triple:
    """Minimum, mean and maximum of ``metric`` over all orders consistent with ``distances``."""
    if not any(relevant):
        raise ValueError("a query without a relevant item has no ranking metrics")
    values = [
        (definition(metric)(pattern), count)
        for pattern, count in orders(distances, relevant).items()
    ]
    total = sum(count for _, count in values)
    return (
        min(value for value, _ in values),
        sum((value * count for value, count in values), Fraction(0)) / total,
        max(value for value, _ in values),
    )


def chance(metric: str, relevant: Sequence[bool]) -> Fraction:
    """The expected value of ``metric`` when the scores say nothing: all items tied."""
    return triple(metric, [0] * len(relevant), relevant)[1]


def orders(distances: Sequence[Any], relevant: Sequence[bool]) -> Counter[Pattern]:
    """How many of the orders consistent with the distances show each pattern of relevant ranks."""
    groups = [
        tuple(bool(r) for d, r in zip(distances, relevant, strict=True) if d == distance)
        for distance in sorted(set(distances))
    ]
    found: Counter[Pattern] = Counter()
    for parts in itertools.product(*(_orders_of_group(group).items() for group in groups)):
        pattern: Pattern = ()
        count = 1
        for part, times in parts:
            pattern += part
            count *= times
        found[pattern] += count
    return found


@cache
def _orders_of_group(group: Pattern) -> Counter[Pattern]:
    return Counter(itertools.permutations(group))


@cache
def definition(metric: str) -> Callable[[Pattern], Fraction]:
    """The definition behind a metric string, as a function of one order."""
    name, _, options = metric.partition("@")
    k, _, option = options.partition(",")
    divisor = {"": "R", "divisor=min": "min"}[option]
    if name == "map" and k == "r":
        return cache(lambda order: average_precision_at(order, sum(order), "R"))
    if name == "map" and k:
        return cache(lambda order: average_precision_at(order, int(k), divisor))
    at_cut = {"precision": precision_at, "recall": recall_at, "hit": hit_at}
    at_cut |= {"mrr": reciprocal_rank_at} if k else {}
    if name in at_cut:
        at_k = at_cut[name]
        return cache(lambda order: at_k(order, int(k)))
    whole = {
        "r_precision": r_precision,
        "map": average_precision,
        "mrr": reciprocal_rank,
        "minp": inverse_negative_penalty,
        "bpref": binary_preference,
    }
    return cache(whole[metric])


def precision_at(order: Pattern, k: int) -> Fraction:
    return Fraction(sum(order[:k]), k)


def recall_at(order: Pattern, k: int) -> Fraction:
    return Fraction(sum(order[:k]), sum(order))


def hit_at(order: Pattern, k: int) -> Fraction:
    return Fraction(1 if any(order[:k]) else 0)


def r_precision(order: Pattern) -> Fraction:
    return precision_at(order, sum(order))


def average_precision(order: Pattern) -> Fraction:
    return average_precision_at(order, len(order), "R")


def average_precision_at(order: Pattern, k: int, divisor: str) -> Fraction:
    total = sum(
        (precision_at(order, rank) for rank in _relevant_ranks(order) if rank <= k), Fraction(0)
    )
    return total / (sum(order) if divisor == "R" else min(sum(order), k))


def reciprocal_rank(order: Pattern) -> Fraction:
    return Fraction(1, min(_relevant_ranks(order)))


def reciprocal_rank_at(order: Pattern, k: int) -> Fraction:
    """Of the first k places alone: what comes later was not found."""
    return next((Fraction(1, rank) for rank in _relevant_ranks(order[:k])), Fraction(0))


def inverse_negative_penalty(order: Pattern) -> Fraction:
    return Fraction(sum(order), max(_relevant_ranks(order)))


def binary_preference(order: Pattern) -> Fraction:
    """As trec_eval counts: a relevant item with nothing before it but relevant ones earns 1."""
    mates, others = sum(order), len(order) - sum(order)
    total = Fraction(0)
    for rank in _relevant_ranks(order):
        wrong = rank - sum(order[:rank])
        total += 1 - Fraction(min(wrong, mates), min(mates, others)) if wrong else 1
    return total / mates


def _relevant_ranks(order: Pattern) -> list[int]:
    return [rank for rank, relevant in enumerate(order, start=1) if relevant]
