"""A result's curves, with one of their bands or none, fresh and read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.builders import clusters


@pytest.fixture(scope="module")
def fresh() -> truerank.Result:
    rows, labels = clusters(0, classes=40, noise=1.5)
    return truerank.evaluate(rows, labels, metrics=["map@r", "auc", "opis"])


def test_names(fresh: truerank.Result) -> None:
    assert fresh.curves == ("cmc", "roc", "det", "pr", "utility", "scores")


def test_bands_are_chosen_by_name(fresh: truerank.Result) -> None:
    point, whole, none = (
        fresh.curve("roc", band=band) for band in ("pointwise", "simultaneous", None)
    )
    assert list(point) == list(whole) == ["far", "tar", "threshold", "low", "high"]
    assert list(none) == ["far", "tar", "threshold"]
    told = np.isfinite(point["low"])
    assert told.mean() > 0.9
    assert (whole["low"][told] <= point["low"][told]).mean() > 0.9
    assert (whole["high"][told] >= point["high"][told]).mean() > 0.9
    assert (np.diff(whole["low"][told]) >= 0).all()
    assert (np.diff(whole["high"][told]) >= 0).all()


@pytest.mark.parametrize("name", ["cmc", "roc", "det", "pr"])
def test_a_result_read_back_has_the_same_bands(
    fresh: truerank.Result, name: str, tmp_path: Path
) -> None:
    fresh.to_json(tmp_path / "result.json")
    read = truerank.Result.from_json(tmp_path / "result.json")
    assert set(read.curves) == set(fresh.curves)
    for band in ("pointwise", "simultaneous"):
        first, again = fresh.curve(name, band=band), read.curve(name, band=band)
        assert list(first) == list(again)
        x, y = (next(iter(curve.values())) for curve in (first, again))
        assert 20 < len(y) <= len(x)
        for end in ("low", "high"):
            known = set(zip(x.tolist(), np.nan_to_num(first[end]).tolist(), strict=True))
            assert set(zip(y.tolist(), np.nan_to_num(again[end]).tolist(), strict=True)) <= known


@pytest.mark.parametrize("band", ["both", 1, ["pointwise"]])
def test_other_bands_are_refused(fresh: truerank.Result, band: object) -> None:
    with pytest.raises(truerank.InputError, match="must be one of pointwise, simultaneous or None"):
        fresh.curve("roc", band=band)  # type: ignore[arg-type]
