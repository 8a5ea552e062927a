"""Whole rows are ranked as sorting them would: ties, near-ties, ranges that mislead the buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.engine import rank_kernels

GRADES = 3


def ranked(distances: Any, grade: Any, bits: int | None = None) -> list[list[tuple[Any, ...]]]:
    """The tie groups of every row: before, size, relevant of each grade, distance."""
    distances = np.asarray(distances, np.float64)
    grade = np.where(distances < np.inf, grade, 0).astype(np.int8)
    most = (grade > 0).sum(axis=1)
    start, count = np.cumsum(most) - most, np.zeros(len(most), np.int64)
    groups = int(most.sum()) + 1
    before, size, distance = np.empty(groups, int), np.empty(groups, int), np.empty(groups)
    graded = np.empty((groups, GRADES), np.int32)
    bits = rank_kernels.bucket_bits(distances.shape[1]) if bits is None else bits
    where = (start, count, before, size, graded, distance)
    rank_kernels.rank_rows(distances, grade, bits, *where)
    return [
        [
            (before[g], size[g], *graded[g], distance[g])
            for g in range(start[q], start[q] + count[q])
        ]
        for q in range(len(most))
    ]


def untied(
    distances: Any, grade: Any, bits: int | None = None
) -> list[list[tuple[int, int]] | None]:
    """Rank and grade of the relevant items of every row; None where something relevant ties."""
    distances = np.asarray(distances, np.float64)
    grade = np.where(distances < np.inf, grade, 0).astype(np.int8)
    offsets = np.concatenate([[0], np.cumsum((grade > 0).sum(axis=1))])
    rank, own = np.empty(offsets[-1], int), np.empty(offsets[-1] + 1, np.int8)
    tied = np.empty(len(grade), bool)
    most = int(np.diff(offsets).max())
    bits = rank_kernels.bucket_bits(2 * most) if bits is None else bits
    rank_kernels.rank_untied(distances, grade, bits, offsets[:-1], rank, own, tied)
    return [
        None if tied[q] else [(rank[g], own[g]) for g in range(offsets[q], offsets[q + 1])]
        for q in range(len(grade))
    ]


def alone(groups: list[tuple[Any, ...]]) -> list[tuple[int, int]] | None:
    """What tie groups say of rank and grade, if all of them hold one item."""
    if any(size > 1 for _, size, *_ in groups):
        return None
    return [(before, graded.index(1) + 1) for before, _, *graded, _ in groups]


def counted(distances: Any, grade: Any) -> list[list[tuple[Any, ...]]]:
    """The same, by looking at every item for every relevant distance."""
    found = []
    for row, own in zip(np.asarray(distances, np.float64), np.asarray(grade), strict=True):
        own = np.where(row < np.inf, own, 0)
        found.append(
            [
                (
                    int((row < d).sum()),
                    int((row == d).sum()),
                    *(int(((row == d) & (own == level)).sum()) for level in range(1, GRADES + 1)),
                    d,
                )
                for d in np.unique(row[own > 0])
            ]
        )
    return found


VALUES = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([np.inf, 1e300, -1e300, 5e-324, 0.0, 1 + 2.0**-52, 1 - 2.0**-53]),
    st.floats(-1e308, 1e308),
)


@given(st.data(), st.integers(1, 12), st.integers(0, 4))
def test_any_rows(data: st.DataObject, items: int, bits: int) -> None:
    shape = (2, items)
    size = 2 * items
    distances = np.reshape(data.draw(st.lists(VALUES, min_size=size, max_size=size)), shape)
    grade = np.reshape(
        data.draw(st.lists(st.integers(0, GRADES), min_size=size, max_size=size)), shape
    )
    truth = counted(distances, grade)
    assert ranked(distances, grade, bits) == truth
    assert untied(distances, grade, bits) == [alone(groups) for groups in truth]


def rows(kind: str) -> np.ndarray:
    """Rows of 700 items that are hard on a counting sort."""
    rng = np.random.default_rng(1)
    plain = rng.normal(size=(4, 700))
    return {
        "plain": plain,
        "few values": np.round(plain),
        "one value": np.ones((4, 700)),
        "neighbouring doubles": 1 + np.rint(40 * plain) * 2.0**-52,
        "one far out": np.where(np.arange(700) == 32, 1e12, plain),
        "all beyond what is looked at": np.where(np.arange(700) % 16 == 0, 0.0, 1 + plain),
        "falling": -np.sort(plain, axis=1) - 1e9 * (np.arange(700) == 16),
        "over many orders": np.exp(40 * plain),
        "wider than a double": np.where(plain < 0, -1.7e308, 1.7e308) * (np.abs(plain) > 0.5),
        "below all normal numbers": np.rint(100 * plain) * 5e-324,
        "nobody looked at is ranked": np.where(np.arange(700) % 16 == 0, np.inf, plain),
    }[kind]


KINDS = (
    "plain",
    "few values",
    "one value",
    "neighbouring doubles",
    "one far out",
    "all beyond what is looked at",
    "falling",
    "over many orders",
    "wider than a double",
    "below all normal numbers",
    "nobody looked at is ranked",
)


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_hard_to_deal_out(kind: str, share: float) -> None:
    rng = np.random.default_rng(2)
    distances = rows(kind)
    grade = rng.integers(1, GRADES + 1, distances.shape) * (rng.random(distances.shape) < share)
    truth = counted(distances, grade)
    assert ranked(distances, grade) == truth
    assert untied(distances, grade) == [alone(groups) for groups in truth]


def test_ties_count_only_where_something_relevant_is_among_them() -> None:
    rows = [[3.0, 1.0, 1.0, 2.0], [3.0, 2.0, 1.0, 2.0], [3.0, 1.0, 3.0, 2.0], [np.inf, 1, 2, 3]]
    grade = [[2, 0, 0, 1], [1, 0, 0, 1], [1, 0, 2, 1], [0, 0, 3, 0]]
    assert untied(rows, grade) == [[(2, 1), (3, 2)], None, None, [(1, 3)]]


def test_rows_without_anything_relevant() -> None:
    nothing: list[list[tuple[Any, ...]]] = [[], []]
    assert ranked(np.ones((2, 5)), np.zeros((2, 5))) == nothing
    assert ranked(np.full((2, 5), np.inf), np.ones((2, 5))) == nothing
    assert untied(np.ones((2, 5)), np.zeros((2, 5))) == nothing
    assert untied(np.full((2, 5), np.inf), np.ones((2, 5))) == nothing
