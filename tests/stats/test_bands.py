"""Bands are what intervals are, point by point; around a whole curve they are wider."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.curve import Curve, CurveMoves
from truerank.core.jackknife import Replicates
from truerank.intervals.bands import put_band
from truerank.intervals.interval import from_replicates

BANDS = ("low", "high", "simultaneous_low", "simultaneous_high")


def moved(
    seed: int, folds: int, points: int, like: str | None, noise: float = 0.0, rises: int = 0
) -> tuple[Curve, CurveMoves]:
    """A curve whose folds move it at random, neighbouring points together."""
    rng = np.random.default_rng(seed)
    value = np.sort(rng.uniform(0.05, 0.95, points))
    steps = rng.standard_t(4, size=(folds, points)).cumsum(axis=1)
    values = value + 0.002 * steps / np.sqrt(np.arange(1, points + 1))
    taken = np.full(points, noise * 0.002**2) if noise else None
    curve = Curve("made", {"x": np.arange(points) / points, "y": value})
    return curve, CurveMoves("y", like, values, taken, rises=rises)


@pytest.mark.parametrize(("like", "steep"), [("tar", True), ("hit", False)])
@given(st.integers(0, 10**6), st.integers(10, 80), st.sampled_from([0.0, 5.0]))
def test_a_band_is_the_interval_at_each_point(
    like: str, steep: bool, seed: int, folds: int, noise: float
) -> None:
    curve, moves = moved(seed, folds, 7, like, noise)
    found = put_band(curve, moves, 0.9)
    for point, value in enumerate(curve["y"].tolist()):
        taken = 0.0 if moves.noise is None else float(moves.noise[point])
        own = Replicates(tuple(moves.values[:, point].tolist()), taken)
        expected = from_replicates(value, own, own, 0.9, (0.0, 1.0), steep=steep).ends
        ends = (found["low"][point], found["high"][point])
        assert ends == pytest.approx(expected, rel=1e-11)


@given(st.integers(0, 10**6))
def test_folds_in_another_order_move_no_bit(seed: int) -> None:
    curve, moves = moved(seed, 30, 40, "tar")
    order = np.random.default_rng(seed).permutation(30)
    turned = CurveMoves("y", "tar", moves.values[order])
    first, again = put_band(curve, moves, 0.95), put_band(curve, turned, 0.95)
    assert all(first[name].tobytes() == again[name].tobytes() for name in BANDS)


def test_a_simultaneous_band_is_as_wide_as_the_largest_deviation_asks_for() -> None:
    """Points that move alone need the confidence of all of them together, others that of one."""
    rng = np.random.default_rng(0)
    value = np.full(20, 0.5)
    curve = Curve("made", {"x": np.arange(20.0), "y": value})
    alone = 0.5 + 0.001 * rng.standard_normal((2000, 20))
    alike = np.repeat(alone[:, :1], 20, axis=1)
    found = [put_band(curve, CurveMoves("y", "hit", values), 0.95) for values in (alone, alike)]
    wider = [(one["simultaneous_high"] - 0.5).mean() / (one["high"] - 0.5).mean() for one in found]
    # the 97.5 % point of 20 independent normal deviations is that of 1 - 0.95 ** (1 / 20) each
    assert wider[0] == pytest.approx(3.016 / 1.960, rel=0.04)
    assert wider[1] == pytest.approx(1.0, rel=0.04)


@pytest.mark.parametrize("rises", [1, -1])
def test_at_the_ends_of_its_range_neighbours_limit_a_monotone_curve(rises: int) -> None:
    value = np.array([0.0, 0.2, 0.5, 0.9, 1.0, 1.0])[::rises]
    rng = np.random.default_rng(1)
    moving = np.where((value > 0) & (value < 1), 0.01, 0.0)
    curve = Curve("made", {"x": np.arange(6.0), "y": value})
    moves = CurveMoves("y", "hit", value + moving * rng.standard_normal((40, 6)), rises=rises)
    found = put_band(curve, moves, 0.95)
    for names in (BANDS[:2], BANDS[2:]):
        low, high = (found[name][::rises] for name in names)
        assert low.tolist() == [0.0, *low[1:4], low[3], low[3]]
        assert high.tolist() == [high[1], *high[1:4], 1.0, 1.0]
        assert (low[1:4] < value[::rises][1:4]).all()
    unbounded = put_band(curve, CurveMoves("y", "hit", moves.values), 0.95)
    assert np.isnan(unbounded["low"][np.isin(value, (0.0, 1.0))]).all()


def test_where_hardly_anything_is_missed_only_the_pointwise_band_trusts_its_folds() -> None:
    value = np.array([0.5, 0.9, 0.99])
    rng = np.random.default_rng(2)
    curve = Curve("made", {"x": np.arange(3.0), "y": value})
    values = value + np.array([0.01, 0.01, 1e-6]) * rng.standard_normal((40, 3))
    sparse = np.array([False, False, True])
    found = put_band(curve, CurveMoves("y", "tar", values, sparse=sparse, rises=1), 0.95)
    assert 0.989 < found["low"][2] < 0.99 < found["high"][2] < 0.991
    assert found["simultaneous_low"][2] == found["simultaneous_low"][1]
    assert found["simultaneous_high"][2] == 1.0


def test_without_a_point_that_is_told_there_is_no_band() -> None:
    curve, moves = moved(0, 20, 5, "tar")
    nothing = CurveMoves("y", "tar", np.full_like(moves.values, np.nan))
    assert list(put_band(curve, nothing, 0.95)) == ["x", "y"]
    half = moves.values.copy()
    half[0, :2] = np.nan
    found = put_band(curve, CurveMoves("y", "tar", half), 0.95)
    assert np.isnan(found["low"]).tolist() == [True, True, False, False, False]
