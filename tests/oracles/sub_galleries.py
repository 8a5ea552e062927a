"""Scores in smaller galleries, by looking at every sub-gallery and every order of ties.

Distances are whole numbers; sub-galleries come from itertools.combinations, orders from
permutations, metrics from their definitions. It uses nothing of the package nor of other oracles.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

Triple = tuple[Fraction, Fraction, Fraction]
Order = tuple[bool, ...]
"""Which ranks hold a relevant item, from the first rank on."""


def query(
    metric: str, distances: Sequence[int], relevant: Sequence[bool], drawn: int
) -> Triple | None:
    """Lower, expected and upper on average over all choices of `drawn` irrelevant items.

    None where the metric does not count the query: it has mates, or it has none.
    """
    near = [d for d, one in zip(distances, relevant, strict=True) if one]
    others = [d for d, one in zip(distances, relevant, strict=True) if not one]
    if metric.startswith("far") == bool(near):
        return None
    galleries = itertools.combinations(others, drawn)
    found = [in_gallery(metric, tuple(sorted(near)), tuple(sorted(one))) for one in galleries]
    low, mean, high = (sum(ends, Fraction(0)) / len(found) for ends in zip(*found, strict=True))
    return low, mean, high


@cache
def in_gallery(metric: str, near: tuple[int, ...], others: tuple[int, ...]) -> Triple:
    """Smallest, mean and largest value over all orders of one gallery."""
    name, _, text = metric.partition("@")
    options = dict(part.split("=") for part in text.split(",") if "=" in part)
    tau = int(options.get("tau", 0))
    if name == "far":
        accepted = Fraction(any(d <= tau for d in others))
        return accepted, accepted, accepted
    if name == "dir":
        hit = f"hit@{options.get('rank', 1)}"
        low, mean, high = in_gallery(hit, near, others) if near[0] <= tau else (Fraction(0),) * 3
        return low, mean, high
    groups = [[True] * near.count(d) + [False] * others.count(d) for d in sorted({*near, *others})]
    orders = itertools.product(*(distinct_orders(tuple(group)) for group in groups))
    values = [value(metric, tuple(itertools.chain(*order))) for order in orders]
    return min(values), sum(values, Fraction(0)) / len(values), max(values)


@cache
def distinct_orders(group: Order) -> list[Order]:
    """Each as likely as any other, items of a kind being alike."""
    return sorted(set(itertools.permutations(group)))


@cache
def value(metric: str, order: Order) -> Fraction:
    """A metric of one order, by its definition."""
    name, _, rest = metric.partition("@")
    cut, _, divisor = rest.partition(",")
    relevant = sum(order)
    ranks = [place + 1 for place, one in enumerate(order) if one]
    k = relevant if cut == "r" or name == "r_precision" else int(cut) if cut else len(order)
    inside = [rank for rank in ranks if rank <= k]
    if name == "hit":
        return Fraction(bool(inside))
    if name == "precision":
        return Fraction(len(inside), k)
    if name in ("recall", "r_precision"):
        return Fraction(len(inside), relevant)
    if name == "mrr":
        return Fraction(1, ranks[0])
    if name == "minp":
        return Fraction(relevant, ranks[-1])
    if name == "map":
        total = sum((Fraction(j + 1, rank) for j, rank in enumerate(inside)), Fraction(0))
        return total / (min(relevant, k) if divisor == "divisor=min" else relevant)
    if name == "bpref":
        most = max(min(relevant, len(order) - relevant), 1)
        lost = [min(rank - 1 - j, relevant) for j, rank in enumerate(ranks)]
        return 1 - Fraction(sum(lost), most * relevant)
    raise ValueError(f"no definition of {metric}")
