"""Values in smaller galleries, against every sub-gallery and against sums of Fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import registered
from tests.oracles import growth as oracle
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.tie_groups import TieGroups
from truerank.metrics import gallery_size_kernels
from truerank.metrics.gallery_sizes import Growth, Records, Terms, drawn_of, law_of

METRICS = [
    *registered.ranking(),
    "precision@2",
    "recall@3",
    "hit@2",
    "map@2",
    "map@3,divisor=min",
    "mrr@2",
]
EXAMPLES = 2_000 if settings().max_examples >= 10_000 else 40
CLOSE = 1e-12


def groups_of(lists: list[list[tuple[int, bool]]]) -> TieGroups:
    """Tie groups of lists of (distance, whether it is a mate)."""
    offsets, before, size, relevant = [0], [], [], []
    for one in lists:
        for distance in sorted({d for d, is_mate in one if is_mate}):
            before.append(sum(d < distance for d, _ in one))
            size.append(sum(d == distance for d, _ in one))
            relevant.append(sum(d == distance and is_mate for d, is_mate in one))
        offsets.append(len(before))
    return TieGroups(
        np.array(offsets),
        np.array(before),
        np.array(size),
        np.array(relevant, np.int32)[:, None],
        np.array([len(one) for one in lists]),
    )


def one_list() -> st.SearchStrategy[list[tuple[int, bool]]]:
    item = st.tuples(st.integers(0, 3), st.booleans())
    return st.lists(item, min_size=2, max_size=7).filter(lambda one: any(mate for _, mate in one))


@settings(max_examples=EXAMPLES)
@given(st.lists(one_list(), min_size=1, max_size=3), st.data())
def test_every_sub_gallery(lists: list[list[tuple[int, bool]]], data: st.DataObject) -> None:
    gallery = data.draw(st.integers(max(map(len, lists)), 12))
    sizes = tuple(data.draw(st.sets(st.integers(1, gallery), min_size=1, max_size=3)))
    metrics = registry.parse_all(METRICS)
    found = Growth(sizes, gallery).values(groups_of(lists), metrics)
    for (s, size), (k, metric), (q, one) in itertools.product(
        enumerate(sizes), enumerate(metrics), enumerate(lists)
    ):
        distances, relevant = [d for d, _ in one], [is_mate for _, is_mate in one]
        drawn = oracle.drawn_of(len(one) - sum(relevant), size, gallery)
        truth = oracle.triple(str(metric), distances, relevant, drawn)
        for end, exact in zip(found[s, k, :, q], truth, strict=True):
            assert abs(Fraction(end) - exact) <= CLOSE, (metric, one, size)


@st.composite
def draws(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """M, b, m, j and a cut, small and large."""
    others = draw(st.sampled_from([3, 20, 300, 2500]))
    before, drawn = draw(st.integers(0, others)), draw(st.integers(0, others))
    j = draw(st.sampled_from([1, 2, 7, 60, 400]))
    mean = before * drawn // others
    cut = draw(st.sampled_from([1, j, j + mean, j + max(mean - 30, 0), j + 5, 10 * others]))
    return others, before, drawn, j, cut


def contribution(others: int, before: int, drawn: int, j: int, cuts: list[int]) -> Any:
    """What the last of j mates contributes to each kind of term with each of the cuts."""
    what = np.repeat(
        [gallery_size_kernels.PRECISION, gallery_size_kernels.FOUND, gallery_size_kernels.BEFORE],
        len(cuts),
    )
    order = np.arange(len(what))
    which = np.full(len(what), gallery_size_kernels.LAST)
    terms = Terms(j, what, np.array(cuts * 3), which, order)
    records = Records(others, [drawn], terms, 1 << 20)
    one = np.ones(1, np.int64)
    [places] = records.hold([(before * one, before * one, j * one, j * one)])
    return records.sums_of_mates(np.arange(2), (j - 1) * one, places).reshape(3, len(cuts))


@settings(max_examples=2 * EXAMPLES)
@given(draws())
def test_one_contribution_against_fractions(draw: tuple[int, int, int, int, int]) -> None:
    others, before, drawn, j, cut = draw
    [precision], [found], [ahead] = contribution(others, before, drawn, j, [cut])

    def mean(function: Any) -> Fraction:
        return oracle.expectation(function, others, before, drawn)

    assert abs(Fraction(found) - mean(lambda x: Fraction(j + x <= cut))) <= CLOSE
    exact = mean(lambda x: Fraction(j, j + x) if j + x <= cut else Fraction(0))
    assert abs(Fraction(precision) - exact) <= CLOSE
    most = mean(lambda x: Fraction(min(x, cut)))
    assert abs(Fraction(ahead) - most) <= CLOSE * max(1, most)


def test_a_mate_contributes_the_same_whatever_else_is_asked_for() -> None:
    for others, before, drawn, j in [(900, 400, 300, 12), (900, 3, 300, 2), (5000, 4000, 400, 300)]:
        together = contribution(others, before, drawn, j, [5, j + 100, others + j])
        for place, cut in enumerate([5, j + 100, others + j]):
            alone = contribution(others, before, drawn, j, [cut])
            assert together[:, place].tobytes() == alone[:, 0].tobytes()


@pytest.mark.parametrize("ties", [False, True])
def test_what_records_have_room_for_changes_no_bit(ties: bool) -> None:
    rng = np.random.default_rng(3)
    span = 40 if ties else 100_000
    lists = [
        [(int(d), place < 9) for place, d in enumerate(rng.integers(0, span, 300))]
        for _ in range(60)
    ]
    groups, metrics = groups_of(lists), registry.parse_all(METRICS)
    sizes = (30, 150, 299)
    growth = Growth(sizes, 300)
    at_once = growth.values(groups, metrics)
    assert growth.values(groups, metrics).tobytes() == at_once.tobytes()
    by_one = [growth.values(groups.part(q, q + 1), metrics) for q in range(len(lists))]
    assert np.concatenate(by_one, axis=-1).tobytes() == at_once.tobytes()
    for room in (0, 1000, 20_000):
        small = Growth(sizes, 300, room)
        for _ in range(2):
            assert small.values(groups, metrics).tobytes() == at_once.tobytes()


def test_rounding_of_sizes() -> None:
    assert [drawn_of(5, n, 10) for n in range(11)] == [0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5]


def test_graded_metrics_have_no_law() -> None:
    assert [name for name in definitions.examples() if law_of(registry.parse(name)) is None] == [
        name for name in definitions.examples() if registry.find(name).family != "ranking"
    ]
