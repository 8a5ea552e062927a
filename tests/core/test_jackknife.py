"""Sums over the queries that stay, against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from truerank.core.jackknife import ONE, ChangeSums, left


@pytest.mark.parametrize("size", [1.0, -1.0, 2.0**20])
def test_sums_without_each_fold_are_rounded_once(size: float) -> None:
    """Large values stand for many: their sum in steps of 2^-40 does not fit 64 bits."""
    rng = np.random.default_rng(3)
    values = size * rng.random(50)
    own = np.column_stack([rng.integers(4, size=60), 4 + rng.integers(3, size=60)])
    rows = rng.permutation(60)[:50]
    steps = [Fraction(round(Fraction(value) * int(ONE))) for value in values.tolist()]
    wanted = [
        float(sum(s for s, row in zip(steps, rows, strict=True) if column not in own[row])) / ONE
        for column in range(7)
    ]
    assert left(values, own, 7, rows).tolist() == wanted
    assert left(values, own[rows], 7).tolist() == wanted


def test_moves_of_some_rows_of_a_table_are_added_up() -> None:
    """As many changes of their own are; the query of a fold does not move without it."""
    rng = np.random.default_rng(4)
    values, before = rng.random((30, 5)), rng.random(30)
    values[3, 2] = np.nan
    chosen = np.array([3, 4, 8, 21])
    own = rng.integers(5, size=(4, 1))
    for weights in (np.ones(4), rng.random(4)):
        moved, changed = ChangeSums(5), ChangeSums(5)
        moved.add_moved(values, chosen, before[chosen], own, weights)
        changed.add(values[chosen] - before[chosen, None], own, weights)
        np.testing.assert_array_equal(moved.total, changed.total)
        stays = [
            sum(
                c != o and not np.isnan(values[q, c])
                for q, o in zip(chosen, own[:, 0], strict=True)
            )
            for c in range(5)
        ]
        assert moved.total[0].tolist() == stays
