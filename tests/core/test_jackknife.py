"""Sums over the queries that stay, against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from truerank.core.jackknife import ChangeSums, Replicates, left
from truerank.core.sum_kernels import COARSE, ONE


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


@pytest.mark.parametrize("alike", [True, False])
def test_changes_are_added_up_in_whole_steps(alike: bool) -> None:
    """Of more queries than are added at a time; a query does not count without its own folds."""
    rng = np.random.default_rng(4)
    count, columns = 300, 5
    change = rng.uniform(-1, 1, (count, columns))
    change[rng.random(change.shape) < 0.1] = np.nan
    own = np.column_stack([rng.integers(2, size=count), 2 + rng.integers(3, size=count)])
    weights = np.ones(count) if alike else rng.random(count)
    sums = ChangeSums(columns)
    sums.add(change, own, weights)
    for column in range(columns):
        total = np.zeros(6, object)
        for query in range(count):
            moved, weight = change[query, column], weights[query]
            if column in own[query] or np.isnan(moved):
                continue
            steps = round(weight * moved * COARSE)
            parts = (weight, weight * moved, weight**2, weight * (weight * moved))
            total += [1, *(round(part * ONE) for part in parts), steps * steps]
        assert sums.total[:, column].tolist() == total.tolist()


def test_the_noise_of_two_samples_adds_up_in_their_difference() -> None:
    one, two = Replicates((0.5, 0.25, 0.75), 0.5), Replicates((0.25, 0.25, 0.5), 0.25)
    assert one.minus(two) == Replicates((0.25, 0.0, 0.25), 0.75)
    assert two.minus(one) == Replicates((-0.25, 0.0, -0.25), 0.75)
