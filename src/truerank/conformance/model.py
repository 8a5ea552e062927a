"""Model of a function under given conventions: its answer to a case by brute force, in fractions.

Orders of equal scores are enumerated, and metrics follow from their definitions, with the known
variants. No code is shared with the engine. Only `ndcg` needs logarithms, and is a float.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, groupby, permutations, product
from typing import Any

from truerank.conformance.cases import Case, Query
from truerank.conformance.conventions import QUESTIONS
from truerank.core.metric import Metric

# What a function that follows given conventions would answer to a case: brute force, in fractions.
#
# In: a metric, one convention for every question, a case. Out: the number that such a function
# gives. Orders of equal scores are listed, not summed up by formulas: nothing here shares code
# with the engine.


RAISED = "an error"
"""In the place of a number."""
TOLERANCE = 2e-6
"""Functions may compute in float32."""


# Metrics of one ranked list by their definitions, in fractions, with the ways to get them wrong.
#
# In: the grades of a list, best place first, and those of all that is relevant, listed or not.
# Out: one number. Only `ndcg` needs logarithms, and is a float.


Number = Fraction | float

Value = Number | str
Chosen = Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """The right one: the least, mean and greatest value over all orders that scores allow."""

    lower: Number
    expected: Number
    upper: Number

    @property
    def defined(self) -> bool:
        """Whether any query has a mate."""
        return not math.isnan(self.lower)


def neutral(metric: Metric) -> dict[str, str]:
    """truerank's own answer to every question."""
    return {question.name: question.ours(metric)[0] for question in QUESTIONS}


def right_answer(metric: Metric, case: Case) -> Answer:
    """The bounds and the mean over all orders, by truerank's conventions."""
    chosen = neutral(metric)
    found = [answer(metric, chosen | {"ties": ties}, case) for ties in _ORDERS]
    return Answer(*(math.nan if isinstance(one, str) else one for one in found))


def truth(metric: Metric, query: Query) -> Answer | None:
    """The same for one query; None if it has no mate."""
    chosen = neutral(metric)
    found = [of_query(metric, chosen | {"ties": ties}, query) for ties in _ORDERS]
    return None if None in found else Answer(*(one for one in found if one is not None))


_ORDERS = ("lower", "expected", "upper")


def agrees(metric: Metric, chosen: Chosen, case: Case, given: float | str) -> bool:
    """Whether a function with these conventions may have given this value (or raised)."""
    if chosen["ties"] == "any":
        low, high = (answer(metric, {**chosen, "ties": end}, case) for end in ("lower", "upper"))
    else:
        low = high = answer(metric, chosen, case)
    if isinstance(low, str) or isinstance(high, str):
        return given == RAISED
    if math.isnan(low):
        return isinstance(given, str) or math.isnan(given)
    return not isinstance(given, str) and low - TOLERANCE <= given <= high + TOLERANCE


def answer(metric: Metric, chosen: Chosen, case: Case) -> Value:
    """The value that a function with these conventions gives."""
    if _refused(metric, chosen, case):
        return RAISED
    of_class: dict[Any, list[Number]] = {}
    for query in case.queries:
        if not query.entries and chosen["absent"] == "left out":
            continue
        if not query.judged:
            if chosen["unjudged"] == "zero":
                of_class.setdefault(0, []).append(Fraction(0))
            continue
        found = of_query(metric, chosen, query)
        if found is None:
            if chosen["unmated"] == "left out":
                continue
            if chosen["unmated"] == "undefined":
                return math.nan
            found = Fraction(chosen["unmated"] == "one")
        name = query.label if chosen["mean"] == "classes" else 0
        of_class.setdefault(name, []).append(found)
    if not of_class:
        given: dict[str, Number] = {"undefined": math.nan, "zero": Fraction(0), "one": Fraction(1)}
        return given[chosen["nothing"]]
    return _mean([_mean(values) for values in of_class.values()])


def _refused(metric: Metric, chosen: Chosen, case: Case) -> bool:
    """Whether a function with these conventions raises."""
    sizes = [len(query.entries) - (query.own is not None) for query in case.queries]
    listed = [size for size in sizes if size]
    cut = metric.cut if isinstance(metric.cut, int) else 0
    return (
        (1 in sizes and chosen["single"] == "raises")
        or (any(size < cut for size in listed) and chosen["beyond"] == "raises")
        or (0 in sizes and chosen["absent"] == "raises")
        or (not all(query.judged for query in case.queries) and chosen["unjudged"] == "raises")
    )


def _mean(values: Sequence[Number]) -> Number:
    return sum(values, Fraction(0)) / len(values)


@dataclass(frozen=True)
class _Item:
    name: str
    score: float
    found: int
    """Its grade as far as a hit at its place counts."""
    own: bool


def of_query(metric: Metric, chosen: Chosen, query: Query) -> Number | None:
    """The value of one query; None if it has no mate."""
    return _of_query(metric, tuple(chosen.items()), query)


@lru_cache(maxsize=100_000)
def _of_query(
    metric: Metric, conventions: tuple[tuple[str, str], ...], query: Query
) -> Number | None:
    chosen = dict(conventions)
    items, relevant = _seen(chosen, query)
    if not relevant:
        return None
    groups = [
        list(group)
        for _, group in groupby(sorted(items, key=lambda i: -i.score), key=lambda i: i.score)
    ]
    if chosen["ties"] == "whole":
        return _whole(chosen, groups, relevant)
    counted: Counter[Number] = Counter()
    for grades, times in _orders(chosen, groups):
        counted[value(metric, chosen, grades, relevant)] += times
    if chosen["ties"] == "expected":
        total = sum(one * times for one, times in counted.items())
        return total / sum(counted.values())
    return max(counted) if chosen["ties"] == "upper" else min(counted)


def _whole(chosen: Chosen, groups: list[list[_Item]], relevant: list[int]) -> Fraction:
    if chosen["self"] == "first":
        groups = [groups[0][1:], *groups[1:]]
    return at_group_ends([[i.found for i in group] for group in groups if group], len(relevant))


def _seen(chosen: Chosen, query: Query) -> tuple[list[_Item], list[int]]:
    """The list as the function sees it, and the grades of all that it holds for relevant."""
    items: list[_Item] = []
    relevant: list[int] = []
    names: set[str] = set()
    for place, entry in enumerate(query.entries):
        own = place == query.own
        if own and chosen["self"] == "row":
            continue
        grade = entry.grade
        if query.label is not None and entry.label is not None:
            grade = int(_same(chosen["labels"], entry.label, query.label))
        if grade < 0 and chosen["junk"] == "removed":
            continue
        grade = abs(grade) if chosen["junk"] == "relevant" else max(grade, 0)
        repeated = entry.name in names
        names.add(entry.name)
        if repeated and chosen["repeats"] == "removed":
            continue
        score = _float32(entry.score) if chosen["resolution"] == "float32" else entry.score
        gone = score <= 0 and chosen["sign"] != "ranked"
        counts = not own or chosen["self"] == "kept"
        if grade and counts and not repeated and not (gone and chosen["sign"] == "irrelevant"):
            relevant.append(grade)
        found = 0 if gone or (repeated and chosen["repeats"] == "wrong") else grade
        items.append(_Item(entry.name, score, found, own))
    return items, relevant + [entry.grade for entry in query.missing if entry.grade > 0]


def _same(way: str, one: float, other: float) -> bool:
    if way == "float32":
        return _float32(one) == _float32(other)
    return int(one) == int(other) if way == "integer" else one == other


def _float32(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _orders(chosen: Chosen, groups: list[list[_Item]]) -> Iterator[tuple[list[int], int]]:
    """The grades of every order that the ties allow, and how many orders show them."""
    ties, skip = chosen["ties"], int(chosen["self"] == "first")
    if ties in _ORDERS:
        for parts in product(*(_arranged(group).items() for group in groups)):
            grades = [grade for part, _ in parts for grade in part]
            yield grades[skip:], math.prod(times for _, times in parts)
        return
    order = [item for group in groups for item in _settled(ties, group)]
    yield [item.found for item in order][skip:], 1


def _settled(ties: str, group: list[_Item]) -> list[_Item]:
    if ties.startswith("id"):
        return sorted(group, key=lambda item: item.name, reverse=ties == "id-reversed")
    return group[::-1] if ties == "reversed" else group


def _arranged(group: list[_Item]) -> Counter[tuple[int, ...]]:
    """All orders of a tie group, as grades: who is who among equal grades does not show."""
    grades = [item.found for item in group]
    kinds = sorted(set(grades))
    if len(kinds) > 2:
        return Counter(permutations(grades))
    found: Counter[tuple[int, ...]] = Counter()
    for places in combinations(range(len(grades)), grades.count(kinds[-1])):
        found[tuple(kinds[-1] if n in places else kinds[0] for n in range(len(grades)))] += 1
    return found


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
