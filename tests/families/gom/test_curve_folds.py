"""The bands of GOM's curves are, at each threshold, the intervals of the scores there."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank._util.old_names import WITHOUT_BAND
from truerank.core import metric as definitions
from truerank.core.jackknife import Replicates
from truerank.intervals.interval import from_replicates
from truerank.metrics.thresholds import gom_replicates

TAUS = ("0.2", "0.25", "0.3", "0.42")
CURVES = ("mrep", "mrep@fp=frozen", "mfr@b=7")
METRICS = [f"{name}{',' if '@' in name else '@'}tau={tau}" for name in CURVES for tau in TAUS]


def open_set(seed: int, classes: int = 30, strangers: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Clusters, some rows of which are alone with their label."""
    rows, labels = clusters(seed, classes=classes, size=5, noise=1.1)
    labels[:strangers] = 1000 + np.arange(strangers)
    return rows, labels


def agree(result: truerank.Result, within: float) -> None:
    told = 0
    for name in CURVES:
        curve = result.curve(name)
        for tau in TAUS:
            score = result[f"{name}{',' if '@' in name else '@'}tau={tau}"]
            at = round(float(tau) * 1000)
            assert curve["tau"][at] == float(tau)
            assert curve["value" if "value" in curve else "lower"][at] == pytest.approx(score.value)
            if score.interval is not None:
                told += 1
                ends = np.array([curve["low"][at], curve["high"][at]])
                width = score.interval[1] - score.interval[0]
                assert np.abs(ends - score.interval).max() <= within * width, (name, tau)
    assert told >= 8


@pytest.mark.parametrize("gallery", [False, True])
def test_the_band_is_the_interval(gallery: bool) -> None:
    """To the last digits in leave-one-out; with a gallery of its own intervals are drawn."""
    rows, labels = open_set(0, 70, 40)
    options = {}
    if gallery:
        own = np.arange(len(rows)) % 2 == 0
        options = {"gallery": rows[~own], "gallery_labels": labels[~own]}
        rows, labels = rows[own], labels[own]
    result = truerank.evaluate(rows, labels, metrics=METRICS, **options)
    agree(result, 0.05 if gallery else 1e-6)


def test_the_band_is_made_of_curves_without_each_class() -> None:
    rows, labels = open_set(1)
    metrics = ["mrep", "mrep@fp=frozen", "mfr@b=7"]
    result = truerank.evaluate(rows, labels, metrics=metrics)
    without = [
        truerank.evaluate(rows[kept], labels[kept], metrics=metrics, confidence=None)
        for kept in (labels != one for one in np.unique(labels))
    ]
    for name in CURVES:
        curve = result.curve(name)
        column = "value" if "value" in curve else "lower"
        told = np.flatnonzero(np.isfinite(curve["low"][::5]) & (curve[column][::5] < 1)) * 5
        told = told[curve[column][told] > 0]
        assert len(told) > 30
        for at in told:
            values = tuple(float(one.curve(name)[column][at]) for one in without)
            own, steep = Replicates(values), definitions.entry(name.partition("@")[0]).is_steep
            expected = from_replicates(
                float(curve[column][at]), own, own, 0.95, (0.0, 1.0), steep=steep
            )
            if expected.ends is not None:
                ends = (curve["low"][at], curve["high"][at])
                assert ends == pytest.approx(expected.ends, rel=1e-6, abs=1e-9), (name, at)


def test_a_sample_of_the_queries_tells_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = open_set(2, 120, 60)
    whole = truerank.evaluate(rows, labels, metrics=METRICS)
    monkeypatch.setattr(gom_replicates, "MOST_MOVED", 180 * 200)
    some = truerank.evaluate(rows, labels, metrics=METRICS)
    agree(some, 0.08)
    for name in CURVES[:-1]:
        assert whole.curve(name)["low"].tobytes() != some.curve(name)["low"].tobytes()


def test_more_knots_are_made_where_that_is_cheap() -> None:
    assert gom_replicates.knots_for(300, 60) == 5
    assert gom_replicates.knots_for(10_000, 1000) == 10


def test_simultaneous_bands_begin_where_some_queries_have_found_something() -> None:
    rows, labels = open_set(3)
    result = truerank.evaluate(rows, labels, metrics=["mrep", "mfr@b=7"])
    inner, outer = (result.curve("mrep", band=kind) for kind in ("pointwise", "simultaneous"))
    both = np.isfinite(inner["low"]) & np.isfinite(outer["low"])
    assert both.sum() > 500
    assert (outer["low"] <= inner["low"] + 1e-12)[both].all()
    assert (outer["high"] >= inner["high"] - 1e-12)[both].all()
    found = result.curve("mrp")["lower"] * result["mrep"].n
    assert not np.isfinite(outer["low"][::5][found[::5] < 4.9]).any()
    false = result.curve("mfr@b=7", band="simultaneous")
    assert (np.diff(false["low"][::5]) >= 0).all()
    assert (np.diff(false["high"][::5]) >= 0).all()


def test_where_there_is_no_band_there_is_a_reason() -> None:
    rows, labels = open_set(4, strangers=4)
    result = truerank.evaluate(rows, labels, metrics=["mrep", "mrep@scale=minmax", "mfr@b=7"])
    assert "low" not in result.curve("mfr@b=7")
    few = "5 classes with a query that counts; an interval needs at least 10"
    assert result.curve("mfr@b=7").band_reason == few
    assert "smallest and the largest" in str(result.curve("mrep@scale=minmax").band_reason)
    assert result.curve("mrep").band_reason is None
    for name in ("mrp", "mvp"):
        assert result.curve(name).band_reason == WITHOUT_BAND[name]
    read = truerank.Result.from_dict(result.to_dict())
    assert read.curve("mfr@b=7").band_reason == few
    bare = truerank.evaluate(rows, labels, metrics=["mrep"], confidence=None)
    assert bare.curve("mrep").band_reason is None
