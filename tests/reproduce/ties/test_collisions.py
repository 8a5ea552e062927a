"""Collisions against loops over pairs of neighbours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from studies.ties import DISTANCES, collision_map, count_collisions, distance_rows, spread

ROWS = np.random.default_rng(0).integers(0, 4, (25, 6)).astype(np.float64) + 0.5


def by_loops(distance: str) -> list[list[float]]:
    found = []
    for a in range(len(ROWS)):
        line = []
        for b in range(len(ROWS)):
            x, y = ROWS[a], ROWS[b]
            if a == b:
                continue
            if distance == "cosine":
                line.append(1 - float(x @ y) / float(np.sqrt(x @ x) * np.sqrt(y @ y)))
            elif distance == "euclidean":
                line.append(float(np.sqrt(((x - y) ** 2).sum())))
            else:
                line.append(float(np.abs(x - y).sum()))
        found.append(sorted(line))
    return found


@pytest.mark.parametrize("distance", DISTANCES)
def test_distances_and_collisions(distance: str) -> None:
    expected = by_loops(distance)
    ranked = distance_rows(ROWS, distance)
    assert ranked == pytest.approx(np.array(expected), abs=1e-14)
    assert spread(ranked) == pytest.approx(np.std(expected))
    for epsilon in (1e-9, 0.01, 0.3):
        count = sum(b - a < epsilon for line in expected for a, b in itertools.pairwise(line))
        assert count_collisions(ranked, epsilon) == count
        flagged = 0
        for line in expected:
            for i, value in enumerate(line):
                close = i > 0 and value - line[i - 1] < epsilon
                close |= i + 1 < len(line) and line[i + 1] - value < epsilon
                flagged += close
        assert collision_map(ranked, epsilon).sum() == flagged


def test_last_places_are_those_of_float32() -> None:
    one = np.float32(1)
    after = np.nextafter(one, np.float32(2))
    far = np.nextafter(np.nextafter(after, np.float32(2)), np.float32(2))
    ranked = np.array([[float(one), float(one) + 1e-12, float(after), float(far)]])
    assert count_collisions(ranked, places=0) == 1
    assert count_collisions(ranked, places=1) == 2
    assert collision_map(ranked, places=1).tolist() == [[True, True, True, False]]
