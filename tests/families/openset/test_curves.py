"""The curve of the detection and identification rate."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.families.rates import spread


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_the_curve_of_dir_by_definition(seed: int, ties: bool) -> None:
    rows, labels = spread(seed, 80, 8)
    if ties:
        rows = np.round(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = truerank.evaluate(
            rows, labels, metrics=["dir@far=0.5", "dir@far=0.5,rank=3"], distance="euclidean"
        )
    distance = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    if not ties:
        distance = np.round(distance, 9)
    np.fill_diagonal(distance, np.inf)
    mates = labels[:, None] == labels[None]
    np.fill_diagonal(mates, False)
    target = mates.any(axis=1)
    impostors = np.sort(distance[~target].min(axis=1))
    mate = np.where(mates, distance, np.inf).min(axis=1)
    for rank in (1, 3):
        curve = result.curve("dir" if rank == 1 else f"dir@rank={rank}")
        before = (np.where(mates, np.inf, distance) <= mate[:, None]).sum(axis=1)  # ties go first
        surely = before < rank
        for far, lower in zip(curve["far"], curve["lower"], strict=True):
            accepted = round(far * len(impostors))
            limit = np.append(impostors, np.inf)[accepted]
            assert (impostors < limit).sum() == accepted
            expected = (surely & (mate < limit))[target].mean()
            assert lower == pytest.approx(expected, abs=1e-12)
        assert (np.diff(curve["far"]) >= 0).all()
        assert curve["far"][-1] == 1.0
        assert (np.diff(curve["lower"]) >= 0).all()


IN_UNIT = {
    "cosine": lambda x, y: 1 - (x @ y.T) / np.outer(*(np.linalg.norm(s, axis=1) for s in (x, y))),
    "euclidean": lambda x, y: np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2)),
    "dot": lambda x, y: -(x @ y.T),
    "cityblock": lambda x, y: np.abs(x[:, None] - y[None]).sum(axis=2),
}


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([*IN_UNIT, "precomputed", "similarity"]))
def test_the_thresholds_of_the_curve_of_dir(seed: int, kind: str) -> None:
    """Accepting up to the threshold, in the user's unit, gives the FAR and the DIR of its point."""
    rng = np.random.default_rng(seed)
    rows, items = (rng.integers(-9, 10, size=(n, 6)) + 0.5 for n in (60, 40))
    if kind == "cosine":  # angles between integers can be too near to tell apart in floats
        rows, items = (rng.normal(size=(n, 6)) for n in (60, 40))
    own = np.where(np.arange(60) < 20, 100 + np.arange(60), np.arange(60) % 8)  # 20 impostors
    theirs = np.arange(40) % 8
    distance = IN_UNIT.get(kind, IN_UNIT["cityblock"])(rows, items)
    options = {"distance": kind, "gallery": items, "gallery_labels": theirs}
    if kind in ("precomputed", "similarity"):
        del options["gallery"]
    given = {"precomputed": distance, "similarity": -distance}.get(kind, rows)
    metrics = [f"dir@far={k / 20:g}" for k in range(21)]
    result = truerank.evaluate(given, own, metrics=metrics, confidence=None, **options)
    curve = result.curve("dir")
    assert list(curve) == ["far", "lower", "expected", "upper", "threshold"]
    sign = -1 if kind == "similarity" else 1
    mates = own[:, None] == theirs[None]
    target = mates.any(axis=1)
    mate = np.where(mates, distance, np.inf).min(axis=1)
    surely = (np.where(mates, np.inf, distance) > mate[:, None] + 1e-7).all(axis=1)
    thresholds = sign * curve["threshold"]
    assert np.isfinite(thresholds[curve["far"] > 0]).all()
    for far, lower, at in zip(curve["far"], curve["lower"], thresholds, strict=True):
        limit = (-np.inf if np.isnan(at) else at) + 1e-7
        assert far == pytest.approx((distance[~target] <= limit).any(axis=1).mean())
        assert lower == pytest.approx((surely & (mate <= limit))[target].mean())
    by_far = {round(far, 2): at for far, at in zip(curve["far"], thresholds, strict=True)}
    met = 0
    for k in range(21):  # without ties every FAR is a point
        if k / 20 in by_far:
            at = result[metrics[k]].threshold
            assert (math.nan if at is None else sign * at) == pytest.approx(
                by_far[k / 20], abs=0, nan_ok=True
            )
            met += 1
    assert met > 5


def test_a_curve_of_dir_that_begins_with_nothing_accepted() -> None:
    """The impostor, at distance 1, is nearer than both mates: at FAR 0 there is no threshold."""
    matrix = [[1.0, 9.0, 9.0], [9.0, 2.0, 3.0], [9.0, 4.0, 3.0]]
    result = truerank.evaluate(
        matrix,
        ["x", "a", "b"],
        gallery_labels=["c", "a", "b"],
        distance="precomputed",
        metrics=["dir@far=0", "dir@far=1"],
    )
    curve = result.curve("dir")
    assert curve["far"].tolist() == [0.0, 1.0]
    assert curve["lower"].tolist() == [0.0, 1.0]
    assert np.isnan(curve["threshold"][0])
    assert curve["threshold"][1] == 3.0
    assert result["dir@far=0"].threshold is None
    assert result["dir@far=1"].threshold == 3.0
