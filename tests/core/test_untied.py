"""Ranks and grades of items that tie with nothing tell the same as their tie groups."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from truerank.core.tie_groups import TieGroups, UntiedGroups

ITEMS = 60


def both(grades: int) -> tuple[UntiedGroups, TieGroups]:
    """Seven queries, each with at least one relevant item among sixty."""
    rng = np.random.default_rng(grades)
    rows = rng.integers(0, grades + 1, (7, ITEMS)) * (rng.random((7, ITEMS)) < 0.3)
    rows[:, 40] = 1
    rows[3, :40] = rows[3, 41:] = 0
    query, rank = np.nonzero(rows)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(query))])
    own = rows[query, rank].astype(np.int8)
    candidates = ITEMS - np.arange(7)
    graded = (own[:, None] == np.arange(1, grades + 1)).astype(np.int32)
    plain = TieGroups(offsets, rank, np.ones(len(rank), np.int64), graded, candidates)
    return UntiedGroups(offsets, rank, own, grades, candidates), plain


def check(found: TieGroups, plain: TieGroups) -> None:
    for name in ("offsets", "before", "candidates", "size", "graded", "relevant", "mates"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name), err_msg=name)
    for name in ("grade", "totals", "ambiguous", "mixed"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name), err_msg=name)
    assert found.untied is plain.untied is True
    assert found.graded.dtype == plain.graded.dtype
    np.testing.assert_array_equal(found.first(), plain.first())
    np.testing.assert_array_equal(found.nearest_level(), plain.nearest_level())


@pytest.mark.parametrize("grades", [1, 2, 5])
def test_they_tell_what_tie_groups_tell(grades: int) -> None:
    found, plain = both(grades)
    check(found, plain)
    check(pickle.loads(pickle.dumps(found)), plain)
    check(found.part(2, 5), plain.part(2, 5))
    check(found.some(np.array([6, 0, 3])), plain.some(np.array([6, 0, 3])))


@pytest.mark.parametrize("grades", [1, 2, 5])
def test_they_keep_the_items_of_a_grade_and_above(grades: int) -> None:
    found, plain = both(grades)
    for grade in range(1, grades + 1):
        for mine, theirs in ((found, plain), (found.part(1, 4), plain.part(1, 4))):
            queries, few = mine.at_least(grade)
            wanted, others = theirs.at_least(grade)
            assert queries.tolist() == wanted.tolist()
            check(few, others)
            np.testing.assert_array_equal(mine.binary(grade).offsets, theirs.binary(grade).offsets)
