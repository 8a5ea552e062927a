"""The arithmetic of ranking metrics against sums of exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import registered
from tests.rounding import nearest
from truerank.core import registry
from truerank.core.metric import Scale
from truerank.core.registry import parse
from truerank.core.tie_groups import TieGroups

HEAVY = min(settings().max_examples // 4, 500)
"""Examples of those tests whose exact sums have thousands of terms."""

Ratio = tuple[int, int]
ONE_GRADE = Scale(np.ones(1))
Groups = list[tuple[int, int, int]]
"""Tie groups that hold relevant items: (items since the group before, size, relevant)."""


def total(terms: Iterable[Ratio]) -> Ratio:
    """The sum of many fractions over one common denominator, by halves, never reduced."""
    level = list(terms) or [(0, 1)]
    while len(level) > 1:
        merged = [
            (a[0] * b[1] + b[0] * a[1], a[1] * b[1])
            for a, b in zip(level[::2], level[1::2], strict=False)
        ]
        level = merged + level[2 * len(merged) :]
    return level[0]


def tie_groups(groups: Groups) -> TieGroups:
    """One query with these groups."""
    before, place = [], 0
    for gap, size, _ in groups:
        before.append(place + gap)
        place += gap + size
    return TieGroups(
        np.array([0, len(groups)]),
        np.array(before),
        np.array([size for _, size, _ in groups]),
        np.array([[relevant] for _, _, relevant in groups]),
        np.array([place]),
    )


def triple(metric: str, groups: Groups) -> list[float]:
    parsed = parse(metric)
    values = registry.definition(parsed).per_query(tie_groups(groups), parsed, ONE_GRADE)
    assert values.shape == (3, 1)
    return values[:, 0].tolist()


def precisions(groups: Groups, cut: float) -> tuple[Ratio, Ratio, Ratio]:
    """Sums of the precision at each relevant item up to the cut: last, in expectation, first.

    In expectation position p of a group holds a relevant item with probability m/t, and each of
    the p - 1 positions before it then holds one with probability (m - 1)/(t - 1).
    """
    lower, expected, upper = [], [], []
    place = found = 0
    for gap, size, relevant in groups:
        place += gap
        for i in range(1, relevant + 1):
            if place + size - relevant + i <= cut:
                lower.append((found + i, place + size - relevant + i))
            if place + i <= cut:
                upper.append((found + i, place + i))
        for p in range(1, size + 1):
            if place + p > cut:
                break
            pairs = Fraction((p - 1) * (relevant - 1), size - 1) if size > 1 else Fraction(0)
            share = Fraction(relevant, size) * (found + 1 + pairs)
            expected.append((share.numerator, share.denominator * (place + p)))
        place += size
        found += relevant
    return total(lower), total(expected), total(upper)


@st.composite
def groups_of(draw: st.DrawFn, most: int, size: int, far: int) -> Groups:
    groups = []
    for _ in range(draw(st.integers(1, most))):
        gap = draw(st.one_of(st.integers(0, 10), st.integers(0, far)))
        items = draw(st.one_of(st.integers(1, 10), st.integers(1, size)))
        relevant = draw(st.one_of(st.integers(1, min(items, 5)), st.integers(1, items)))
        groups.append((gap, items, relevant))
    return groups


def divided(value: Ratio, divisor: int) -> Ratio:
    return value[0], value[1] * divisor


def assert_average_precision(groups: Groups, cut: int) -> None:
    mates = sum(relevant for _, _, relevant in groups)
    for metric, last, divisor in (
        ("map", math.inf, mates),
        ("map@r", mates, mates),
        (f"map@{cut}", cut, mates),
        (f"map@{cut},divisor=min", cut, min(mates, cut)),
    ):
        expected = [nearest(divided(value, divisor)) for value in precisions(groups, last)]
        assert triple(metric, groups) == expected, metric


@pytest.mark.thorough
@given(groups_of(most=5, size=60, far=1000), st.integers(1, 1200))
def test_average_precision_is_correctly_rounded(groups: Groups, cut: int) -> None:
    assert_average_precision(groups, cut)


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=2, size=5000, far=1_000_000), st.integers(1, 1_010_000))
def test_average_precision_of_large_groups_far_down(groups: Groups, cut: int) -> None:
    assert_average_precision(groups, cut)


@pytest.mark.parametrize(
    "groups",
    [
        [(0, 5000, 1)],
        [(0, 5000, 4999)],
        [(0, 5000, 5000)],
        [(1_000_000, 5000, 1)],
        [(1_000_000, 5000, 2500)],
        [(999_936, 64, 3)],  # around the spacing of the table of harmonic numbers
        [(999_937, 65, 3)],
        [(63, 64, 1), (0, 65, 64)],
        [(1, 2, 1), (1_000_000, 1, 1), (0, 129, 128)],
    ],
)
def test_average_precision_at_the_edges(groups: Groups) -> None:
    place = sum(gap + size for gap, size, _ in groups)
    for cut in (1, place - 1, place, place + 1):
        assert_average_precision(groups, max(cut, 1))


def reciprocal_ranks(group: tuple[int, int, int], cut: float = math.inf) -> list[float]:
    before, size, relevant = group
    expected = total(
        (math.comb(size - p, relevant - 1), before + p)
        for p in range(1, size - relevant + 2)
        if before + p <= cut
    )
    last, first = before + size - relevant + 1, before + 1
    return [
        1 / last if last <= cut else 0.0,
        nearest(divided(expected, math.comb(size, relevant))),
        1 / first if first <= cut else 0.0,
    ]


def inverse_penalties(groups: Groups) -> list[float]:
    mates = sum(relevant for _, _, relevant in groups)
    place = sum(gap + size for gap, size, _ in groups)
    _, size, relevant = groups[-1]
    before = place - size
    expected = total(
        (math.comb(p - 1, relevant - 1) * mates, before + p) for p in range(relevant, size + 1)
    )
    return [
        mates / place,
        nearest(divided(expected, math.comb(size, relevant))),
        mates / (before + relevant),
    ]


@pytest.mark.thorough
@given(groups_of(most=3, size=40, far=1000))
def test_extreme_ranks_are_correctly_rounded(groups: Groups) -> None:
    assert triple("mrr", groups) == reciprocal_ranks(groups[0])
    assert triple("minp", groups) == inverse_penalties(groups)


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=2, size=700, far=1_000_000))
def test_extreme_ranks_of_large_groups_far_down(groups: Groups) -> None:
    assert triple("mrr", groups) == reciprocal_ranks(groups[0])
    assert triple("minp", groups) == inverse_penalties(groups)


@pytest.mark.parametrize("relevant", [1, 2, 3, 40, 1000, 1999, 2000])
@pytest.mark.parametrize("before", [0, 1_000_000])
def test_extreme_ranks_of_one_large_group(before: int, relevant: int) -> None:
    groups = [(before, 2000, relevant)]
    assert triple("mrr", groups) == reciprocal_ranks(groups[0])
    assert triple("minp", groups) == inverse_penalties(groups)


@pytest.mark.thorough
@given(groups_of(most=3, size=40, far=60), st.integers(1, 100))
def test_reciprocal_ranks_up_to_a_cut_are_correctly_rounded(groups: Groups, cut: int) -> None:
    assert triple(f"mrr@{cut}", groups) == reciprocal_ranks(groups[0], cut)


@pytest.mark.parametrize("relevant", [1, 3, 1999, 2000])
@pytest.mark.parametrize("inside", [-1, 0, 1, 2, 1999, 2000])
def test_reciprocal_ranks_around_the_ends_of_a_group(inside: int, relevant: int) -> None:
    group = (50, 2000, relevant)
    assert triple(f"mrr@{50 + inside}", [group]) == reciprocal_ranks(group, 50 + inside)


@pytest.mark.thorough
@given(
    st.integers(0, 1000),
    st.one_of(st.integers(1, 12), st.integers(1, 200_000)),
    st.data(),
)
def test_hits_are_correctly_rounded(before: int, size: int, data: st.DataObject) -> None:
    few = st.integers(1, min(size, 20))
    relevant = data.draw(st.one_of(few, st.integers(max(1, size - 20), size)))
    drawn = data.draw(st.one_of(few, st.integers(max(1, size - 20), size)))
    miss = Fraction(math.comb(size - relevant, drawn), math.comb(size, drawn))
    upper_and_lower = [float(drawn > size - relevant), nearest(1 - miss), 1.0]
    assert triple(f"hit@{before + drawn}", [(before, size, relevant)]) == upper_and_lower
    if before:
        assert triple(f"hit@{before}", [(before, size, relevant)]) == [0.0, 0.0, 0.0]


@given(groups_of(most=4, size=5000, far=1_000_000), st.integers(1, 1_010_000))
def test_shares_are_correctly_rounded(groups: Groups, cut: int) -> None:
    mates = sum(relevant for _, _, relevant in groups)
    for metric, k, divisor in (
        (f"precision@{cut}", cut, cut),
        (f"recall@{cut}", cut, mates),
        ("r_precision", mates, mates),
    ):
        fewest = most = 0
        expected = Fraction(0)
        place = 0
        for gap, size, relevant in groups:
            place += gap
            fewest += min(max(k - (place + size - relevant), 0), relevant)
            most += min(max(k - place, 0), relevant)
            expected += Fraction(relevant * min(max(k - place, 0), size), size)
            place += size
        assert triple(metric, groups) == [
            fewest / divisor,
            nearest(expected / divisor),
            most / divisor,
        ]


def preferences(groups: Groups) -> list[float]:
    """What each mate earns in each of the places that the group's others leave it."""
    mates = sum(relevant for _, _, relevant in groups)
    items = sum(gap + size for gap, size, _ in groups)
    lower, expected, upper = [], [], []
    wrong = 0
    for gap, size, relevant in groups:
        wrong += gap
        others = size - relevant
        most = max(min(mates, items - mates), 1)
        places = [most - min(wrong + before, mates) for before in range(others + 1)]
        lower.append((relevant * places[-1], most))
        expected.append((relevant * sum(places), most * len(places)))
        upper.append((relevant * places[0], most))
        wrong += others
    return [nearest(divided(total(terms), mates)) for terms in (lower, expected, upper)]


@pytest.mark.thorough
@given(groups_of(most=5, size=60, far=60))
def test_preferences_are_correctly_rounded(groups: Groups) -> None:
    assert triple("bpref", groups) == preferences(groups)


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=3, size=5000, far=10_000))
def test_preferences_of_large_groups(groups: Groups) -> None:
    assert triple("bpref", groups) == preferences(groups)


def test_preferences_beyond_64_bits() -> None:
    """Ten million items tied, three million of them relevant: R^3 is more than 2^63."""
    mates, others = 3_000_000, 7_000_000
    expected = Fraction(mates + 1, 2 * (others + 1))
    assert triple("bpref", [(0, mates + others, mates)]) == [0.0, nearest(expected), 1.0]


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=5, size=300, far=100_000))
def test_bounds_are_in_order_and_meet_without_ties(groups: Groups) -> None:
    single = [(gap, relevant, relevant) for gap, _, relevant in groups]
    for metric in registered.ranking():
        lower, expected, upper = triple(metric, groups)
        low, high = registry.definition(parse(metric)).range
        assert low <= lower <= expected <= upper <= high
        assert len(set(triple(metric, single))) == 1


def test_a_perfect_ranking_is_exactly_one() -> None:
    metrics = ("map", "map@r", "r_precision", "mrr", "minp", "bpref", "hit@1", "precision@1")
    for relevant in (1, 3, 49, 1000):
        perfect = [(0, 1, 1)] * relevant
        for metric in metrics:
            assert triple(metric, perfect) == [1.0, 1.0, 1.0]
            assert triple(metric, [(0, relevant, relevant), (5, 1, 1)])[0] <= 1.0


@pytest.mark.parametrize(
    ("gap", "size", "relevant"),
    [
        (0, 2**20 + 7, 2),
        (3, 2**20 + 7, 1000),
        (2000, 2**21 - 5, 300),
        (2**20, 2**20 + 1, 40),
        (5 * 10**6, 2**20 + 1, 400),
        (10, 2**20 + 1, 2**19 + 9),
    ],
)
def test_extreme_ranks_of_long_groups(gap: int, size: int, relevant: int) -> None:
    """Position by position, in numpy: where the recurrence takes over from such a sum."""
    position = np.arange(1, size - relevant + 2, dtype=np.float64)
    kept = np.concatenate([[1.0], 1 - (relevant - 1) / (size - position[:-1])])
    weight = relevant / size * np.cumprod(kept)
    first = math.fsum((weight / (gap + position)).tolist())
    last = math.fsum((weight * relevant / (gap + size + 1 - position)).tolist())
    assert triple("mrr", [(gap, size, relevant)])[1] == pytest.approx(first, rel=1e-9, abs=0)
    assert triple("minp", [(gap, size, relevant)])[1] == pytest.approx(last, rel=1e-9, abs=0)
