"""Ways to cut a tie group: their probabilities, against drawing items one by one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from tests.refusals import refused
from truerank.evaluation.index_loss import divide


@pytest.mark.parametrize("graded", [(0,), (2,), (5,), (1, 2), (0, 3, 1)])
@pytest.mark.parametrize("first", [1, 2, 4])
def test_every_choice_of_items(graded: tuple[int, ...], first: int) -> None:
    size = max(sum(graded) + 2, first + 1)
    items = [grade for grade, number in enumerate(graded, 1) for _ in range(number)]
    items += [0] * (size - len(items))
    drawn = Counter(
        tuple(sum(grade == one for one in some) for grade in range(1, len(graded) + 1))
        for some in combinations(items, first)
    )
    ways, weights = divide(graded, size, first)
    found = {tuple(way): weight for way, weight in zip(ways.tolist(), weights, strict=True)}
    assert set(found) == set(drawn)
    for way, times in drawn.items():
        assert found[way] == float(Fraction(times, drawn.total()))


def test_large_groups_stay_exact_and_too_many_ways_are_refused() -> None:
    ways, weights = divide((30,), 100_000, 1000)
    assert len(ways) == 31
    assert abs(float(np.sum(weights)) - 1) < 1e-12
    assert float(weights @ ways[:, 0]) == pytest.approx(30 * 1000 / 100_000, rel=1e-12)
    with refused("in more than 100,000 ways; choose another k"):
        divide((400, 400), 1000, 500)
