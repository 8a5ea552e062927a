"""Metrics of one ranked list by their definitions, in fractions, with the ways to get them wrong.

In: the grades of a list, best place first, and those of all that is relevant, listed or not. Out:
one number. Only `ndcg` needs logarithms, and is a float.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from truerank.core.metric import Metric

__all__ = ["FORMULAS", "Number", "at_group_ends", "value"]

Number = Fraction | float
Chosen = Mapping[str, str]
"""A convention for every question."""


def value(metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]) -> Number:
    """The metric of a list by these conventions; `relevant` holds the grades of all mates."""
    return FORMULAS[metric.name](metric, chosen, grades, relevant)


def _cut(metric: Metric, grades: Sequence[int], relevant: Sequence[int]) -> int:
    if metric.cut is None:
        return len(grades)
    return len(relevant) if metric.cut == "r" else int(metric.cut)


def _places(grades: Sequence[int], cut: int) -> list[int]:
    """The ranks of the mates among the first places."""
    return [rank for rank, grade in enumerate(grades[:cut], start=1) if grade > 0]


def _average_precision(
    metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]
) -> Number:
    cut = _cut(metric, grades, relevant)
    ranks = _places(grades, cut)
    precisions = [Fraction(found, rank) for found, rank in enumerate(ranks, start=1)]
    if chosen["formula"] == "trapezoid":
        before = [
            Fraction(found, rank - 1) if rank > 1 else Fraction(1)
            for found, rank in enumerate(ranks)
        ]
        precisions = [(a + b) / 2 for a, b in zip(before, precisions, strict=True)]
    elif chosen["formula"] == "interpolated":
        precisions = [max(precisions[place:]) for place in range(len(precisions))]
    divisor = {
        "r": len(relevant),
        "min": min(len(relevant), cut),
        "found": len(ranks),
        "k": cut,
    }[chosen["divisor"]]
    return sum(precisions, Fraction(0)) / divisor if divisor else Fraction(0)


def _precision(
    metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]
) -> Number:
    cut = _cut(metric, grades, relevant)
    divisor = min(cut, len(grades)) if chosen["beyond"] == "listed" else cut
    return Fraction(len(_places(grades, cut)), divisor) if divisor else Fraction(0)


def _r_precision(
    metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]
) -> Number:
    return Fraction(len(_places(grades, len(relevant))), len(relevant))


def _recall(
    metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]
) -> Number:
    cut = _cut(metric, grades, relevant)
    divisor = min(len(relevant), cut) if chosen["divisor"] == "min" else len(relevant)
    return Fraction(len(_places(grades, cut)), divisor)


def _hit(metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]) -> Number:
    return Fraction(bool(_places(grades, _cut(metric, grades, relevant))))


def _reciprocal_rank(
    metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]
) -> Number:
    ranks = _places(grades, _cut(metric, grades, relevant))
    return Fraction(1, ranks[0]) if ranks else Fraction(0)


def _inverse_negative_penalty(
    metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]
) -> Number:
    ranks = _places(grades, len(grades))
    return Fraction(len(relevant), ranks[-1]) if len(ranks) >= len(relevant) else Fraction(0)


def _ndcg(metric: Metric, chosen: Chosen, grades: Sequence[int], relevant: Sequence[int]) -> Number:
    cut = int(metric.cut) if metric.cut is not None else max(len(grades), len(relevant))
    best = sorted(grades[:cut] if chosen["ideal"] == "retrieved" else relevant, reverse=True)
    ideal = _gain(chosen, best[:cut])
    return _gain(chosen, grades[:cut]) / ideal if ideal else 0.0


def _gain(chosen: Chosen, grades: Sequence[int]) -> float:
    linear, late = chosen["gain"] == "linear", chosen["discount"] == "from the second"
    terms = []
    for rank, grade in enumerate(grades, start=1):
        discount = max(1.0, math.log2(rank)) if late else math.log2(1 + rank)
        terms.append((grade if linear else 2**grade - 1) / discount)
    return math.fsum(terms)


def at_group_ends(groups: Sequence[Sequence[int]], relevant: int) -> Fraction:
    """Average precision with each mate's precision taken at the end of its tie group."""
    total, listed, found = Fraction(0), 0, 0
    for group in groups:
        mates = sum(grade > 0 for grade in group)
        listed, found = listed + len(group), found + mates
        total += mates * Fraction(found, listed)
    return total / relevant


FORMULAS = {
    "map": _average_precision,
    "precision": _precision,
    "r_precision": _r_precision,
    "recall": _recall,
    "hit": _hit,
    "mrr": _reciprocal_rank,
    "minp": _inverse_negative_penalty,
    "ndcg": _ndcg,
}
"""What the kit can check, by the name of the metric."""
