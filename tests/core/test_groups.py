"""Tie groups."""

from __future__ import annotations

import numpy as np

from truerank.core.tie_groups import TieGroups


def test_a_single_tie_group() -> None:
    groups = TieGroups.single(np.array([[2], [3], [4]]), np.array([5, 9, 4]))
    assert groups.mates.tolist() == [2, 3, 4]
    assert groups.before.tolist() == [0, 0, 0]
    assert groups.size.tolist() == groups.candidates.tolist() == [5, 9, 4]
    assert groups.ambiguous.tolist() == [True, True, False]
