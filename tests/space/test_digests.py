"""Digests of rows: equal for equal rows, whoever computes them, and for no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.distance import digests
from truerank.distance.digests import (
    all_differ,
    as_keys,
    classes_of_equals,
    content_order,
    row_digests,
    sorted_bytes,
)

FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)


def by_hand(numbers: list[int]) -> list[int]:
    """In Python's integers."""
    halves = []
    for state, factor, shift in zip(SEEDS, FACTORS, (29, 32), strict=True):
        for number in numbers:
            state = (state ^ (number % 2**64)) * factor % 2**64
            state ^= state >> shift
        halves.append(state)
    return halves


@given(
    st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=3, max_size=3), min_size=1),
    st.integers(-1000, 1000),
)
def test_by_hand(rows: list[list[int]], more: int) -> None:
    wanted = [by_hand([more, *row]) for row in rows]
    table = np.array(rows, np.int32)
    extra = np.full(len(rows), more, np.int32)
    assert row_digests(table, extra).tolist() == wanted
    assert row_digests(table.astype(np.int64), extra).tolist() == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "compiled", lambda: False)
        assert row_digests(table, extra).tolist() == wanted


def test_rows_that_differ_in_one_number_differ_in_both_halves() -> None:
    rows = np.random.default_rng(0).integers(-9, 9, size=(200, 20), dtype=np.int32)
    other = rows.copy()
    other[np.arange(200), np.arange(200) % 20] += 1
    assert (row_digests(rows) != row_digests(other)).all()


def test_equal_rows_share_a_number() -> None:
    rows = np.random.default_rng(1).integers(2, size=(500, 5), dtype=np.int32)
    number, times = classes_of_equals(row_digests(rows))
    same = (rows[:, None] == rows).all(axis=2)
    np.testing.assert_array_equal(number[:, None] == number, same)
    np.testing.assert_array_equal(times[number], same.sum(axis=1))
    keys = as_keys(row_digests(rows))
    np.testing.assert_array_equal([[a == b for b in keys] for a in keys], same)


def test_whether_rows_differ() -> None:
    rows = np.arange(60, dtype=np.int32).reshape(20, 3)
    for equal, wanted in ((False, True), (True, False)):
        rows[-1] = rows[7] if equal else rows[-1]
        found = row_digests(rows)
        assert all_differ(found, content_order(found)) == wanted
    assert all_differ(found[:1], np.zeros(1, np.int64))


def test_the_order_of_rows_does_not_show() -> None:
    found = row_digests(np.random.default_rng(2).integers(3, size=(50, 4), dtype=np.int32))
    assert sorted_bytes(found) == sorted_bytes(found[::-1])
    assert sorted_bytes(found) != sorted_bytes(found[1:])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2))))
def test_digests_that_share_a_half_are_sorted_by_the_other(pairs: list[tuple[int, int]]) -> None:
    table = np.array(pairs, np.uint64).reshape(-1, 2)
    wanted = sorted(pairs, key=lambda pair: pair[::-1])
    assert sorted_bytes(table) == np.array(wanted, "<u8").reshape(-1, 2).tobytes()
