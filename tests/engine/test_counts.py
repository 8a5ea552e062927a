"""Counts add up in any order and say what they claim to say."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.engine import count_kernels
from truerank.engine.counts import Counts


def count(frame: Counts, distances: np.ndarray) -> Counts:
    """A new Counts of these distances alone."""
    counts = frame.empty_copy()
    count_kernels.count_tile(
        np.ascontiguousarray(distances),
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    return counts


def arrays(counts: Counts) -> list[list[Any]]:
    return [
        values.tolist()
        for values in (
            counts.offsets,
            counts.distance,
            counts.graded,
            counts.between,
            counts.equal,
        )
    ]


GRADES = 3


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Distances with many ties, and the grade of each item for each query, 0 not relevant."""
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 14))
    size = shape[0] * shape[1]
    distances = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size))
    grades = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), min_size=size, max_size=size))
    return np.array(distances, float).reshape(shape), np.array(grades).reshape(shape)


def frame_of(distances: np.ndarray, grade: np.ndarray, grades: int = GRADES) -> Counts:
    query, item = np.nonzero(grade)
    return Counts.frame(query, distances[query, item], grade[query, item], len(distances), grades)


@given(cases(), st.data())
def test_tiles_add_up_in_any_order_and_grouping(
    case: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    distances, grade = case
    frame = frame_of(distances, grade)
    whole = count(frame, distances)
    cuts = sorted(data.draw(st.sets(st.integers(0, distances.shape[1]), max_size=5)))
    edges = [0, *cuts, distances.shape[1]]
    parts = [count(frame, distances[:, start:stop]) for start, stop in itertools.pairwise(edges)]
    parts = data.draw(st.permutations(parts))
    while len(parts) > 1:  # a random tree of additions
        left = data.draw(st.integers(0, len(parts) - 2))
        parts[left : left + 2] = [parts[left] + parts[left + 1]]
    assert arrays(parts[0]) == arrays(whole)


@given(cases())
def test_counts_are_what_they_say(case: tuple[np.ndarray, np.ndarray]) -> None:
    distances, grade = case
    frame = frame_of(distances, grade)
    counted = count(frame, distances)
    groups = counted.tie_groups(np.full(len(distances), distances.shape[1]))
    assert len(groups) == len(distances)
    for q, (row, worth) in enumerate(zip(distances, grade, strict=True)):
        mine = slice(groups.offsets[q], groups.offsets[q + 1])
        at = sorted(set(row[worth > 0].tolist()))
        assert counted.distance[mine].tolist() == at
        assert groups.before[mine].tolist() == [int((row < d).sum()) for d in at]
        assert groups.size[mine].tolist() == [int((row == d).sum()) for d in at]
        assert groups.graded[mine].tolist() == [
            [int(((row == d) & (worth == g)).sum()) for g in range(1, GRADES + 1)] for d in at
        ]
    np.testing.assert_array_equal(groups.mates, (grade > 0).sum(axis=1))


@given(cases())
def test_one_grade_is_the_simple_case(case: tuple[np.ndarray, np.ndarray]) -> None:
    distances, grade = case
    one, many = frame_of(distances, (grade > 0).astype(int), 1), frame_of(distances, grade)
    assert arrays(one)[:2] == arrays(many)[:2]
    np.testing.assert_array_equal(one.graded[:, 0], many.graded.sum(axis=1))


@given(cases(), st.data())
def test_excluded_pairs_are_taken_out_again(
    case: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    distances, grade = case
    excluded = (grade == 0) & np.array(
        data.draw(st.lists(st.booleans(), min_size=grade.size, max_size=grade.size))
    ).reshape(grade.shape)
    frame = frame_of(distances, grade)
    counts = count(frame, distances)
    query, item = np.nonzero(excluded)
    count_kernels.count_pairs(
        query,
        distances[query, item],
        -1,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    assert arrays(counts) == arrays(count(frame, np.where(excluded, 99.0, distances)))


def test_counts_of_different_queries_are_not_added() -> None:
    distances = np.array([[0.0, 1, 2, 3]])
    some = frame_of(distances, np.array([[1, 0, 1, 0]]))
    assert arrays(some + some.empty_copy()) == arrays(some)
    for other in (
        frame_of(distances, np.array([[1, 0, 0, 1]])),  # another distance
        frame_of(distances, np.array([[1, 0, 2, 0]])),  # another grade
        frame_of(distances[:, [0, 0, 2]], np.array([[1, 1, 1]])),  # another number
        frame_of(distances.repeat(2, 0), np.array([[1, 0, 0, 0], [0, 0, 1, 0]])),  # two queries
    ):
        with pytest.raises(ValueError, match="counts of different queries"):
            some + other
