"""Curves in a result's JSON: what is read back draws what the fresh result draws."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema
import numpy as np
import pytest

import truerank
from tests.results import SCHEMA
from truerank import Result
from truerank.core.curve import Curve
from truerank.result.curves import MOST_POINTS, read_curves, save_curves, thinned

CURVES = ["cmc", "roc", "det", "f1", "dir", "mrp", "mvp", "mrep", "mfr"]
METRICS = ["map", "auc", "best_f1", "dir@far=0.1", "mrep", "mfr"]


def clusters(distance: str = "cosine", rows: int = 400) -> Result:
    """An open set of two dozen classes and a quarter of strangers."""
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % 24
    x = (rng.normal(size=(24, 8))[labels] * 0.7 + rng.normal(size=(rows, 8))).astype(np.float32)
    labels[: rows // 4] = 1000 + np.arange(rows // 4)
    if distance == "similarity":
        x = x @ x.T
    return truerank.evaluate(x, labels, metrics=METRICS, distance=distance, confidence=None)


def drawn_by(result: Result) -> list[str]:
    return CURVES if result.provenance["distance"]["distance"] == "cosine" else CURVES[:5]


def defined(curve: Curve) -> Curve:
    """The points that have an abscissa: where nothing is accepted there is no threshold."""
    known = np.isfinite(next(iter(curve.values())))
    return Curve(curve.name, {name: values[known] for name, values in curve.items()})


@pytest.fixture(scope="module", params=["cosine", "euclidean", "similarity"])
def fresh(request: pytest.FixtureRequest) -> Result:
    return clusters(request.param)


@pytest.fixture(scope="module")
def read(fresh: Result, tmp_path_factory: pytest.TempPathFactory) -> Result:
    path = tmp_path_factory.mktemp("saved") / "result.json"
    fresh.to_json(path)
    return Result.from_json(path)


def places(first: Curve, again: Curve) -> list[int]:
    """Which points of the first curve the second has, in its order."""
    points = [tuple(np.nan_to_num(point, nan=-9.0)) for point in zip(*first.values(), strict=True)]
    wanted = [tuple(np.nan_to_num(point, nan=-9.0)) for point in zip(*again.values(), strict=True)]
    found: list[int] = []
    for point in wanted:
        found.append(points.index(point, found[-1] + 1 if found else 0))
    return found


def test_a_result_read_back_draws_the_same_curves(fresh: Result, read: Result) -> None:
    """No point is a pixel of 1,000 above or below, over a linear or a logarithmic abscissa."""
    for name in drawn_by(fresh):
        first, again = defined(fresh.curve(name)), defined(read.curve(name))
        assert list(first) == list(again)
        kept = places(first, again)
        assert (kept[0], kept[-1]) == (0, len(next(iter(first.values()))) - 1)
        abscissa, *columns = first.values()
        scales = [abscissa]
        if abscissa.min() >= 0:
            scales.append(np.log10(np.maximum(abscissa, abscissa[abscissa > 0].min())))
        for x, y in itertools.product(scales, columns):
            assert largest_gap(x, y, kept) <= 1e-3


def largest_gap(x: Any, y: Any, kept: list[int]) -> float:
    """How far points are above or below the lines between those that are left, on y's axis."""
    gaps = [0.0]
    for left, right in itertools.pairwise(kept):
        inside = np.arange(left + 1, right)
        if len(inside) and x[left] != x[right]:
            line = y[left] + (x[inside] - x[left]) / (x[right] - x[left]) * (y[right] - y[left])
            gaps += np.abs(y[inside] - line).tolist()
    return np.nanmax(gaps) / np.ptp(y[np.isfinite(y)])


def test_the_json_stays_small_and_as_it_is(fresh: Result, read: Result) -> None:
    assert read.to_json() == fresh.to_json()
    data = fresh.to_dict()
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    text = json.dumps(data["curves"], indent=1)
    assert len(text) < 1_000_000
    assert fresh.to_dict(curves=False).keys() == data.keys() - {"curves"}
    for one in data["curves"]["curves"].values():
        assert len({len(column) for column in one["columns"].values()}) == 1
        assert len(next(iter(one["columns"].values()))) <= MOST_POINTS


def test_the_first_hundred_ranks_are_bit_for_bit(fresh: Result, read: Result) -> None:
    for ranks in (1, 7, 100):
        first, again = fresh.curve("cmc", ranks=ranks), read.curve("cmc", ranks=ranks)
        for column in first:
            np.testing.assert_array_equal(first[column], again[column])
            assert first[column].dtype == again[column].dtype
    whole, again = fresh.curve("cmc", ranks=1000), read.curve("cmc", ranks=1000)
    assert again["rank"][-1] == 1000
    assert again["lower"][-1] == 1.0
    for column in ("lower", "expected", "upper"):
        np.testing.assert_array_equal(whole[column][again["rank"] - 1], again[column])


def test_the_worst_case_is_below_a_megabyte() -> None:
    """Eight curves of noise, of which no point can be left out unseen, with bands."""
    rng = np.random.default_rng(0)
    names = ["y", "lower", "upper", "threshold", "low", "high"]
    noise = {
        str(number): Curve(
            str(number), {"x": np.sort(rng.random(2000)), **{n: rng.random(2000) for n in names}}
        )
        for number in range(8)
    }
    saved = save_curves(noise)
    assert len(json.dumps(saved, indent=1)) < 1_000_000
    assert all(one["points"] == 2000 for one in saved["curves"].values())


def test_straight_lines_need_their_ends() -> None:
    x = np.linspace(1, 2, 5000)
    bent = np.where(x < 1.5, x, 1.5)
    kept = thinned(Curve("bent", {"x": x, "y": bent}))
    drawn = np.interp(x, x[kept], bent[kept])
    assert np.abs(drawn - bent).max() <= 0.5 / 2000
    assert len(kept) < 30
    assert thinned(Curve("few", {"x": x[:9], "y": bent[:9]})).tolist() == list(range(9))
    flat = Curve("flat", {"x": x, "y": np.full(5000, np.nan)})
    assert len(thinned(flat)) < 30


def test_what_no_version_knows_is_not_drawn(fresh: Result) -> None:
    data = fresh.to_dict()
    data["curves"] = {**data["curves"], "version": 99}
    later = Result.from_dict(data)
    assert later["map"] == fresh["map"]
    with pytest.raises(truerank.InputError, match="no curve 'roc'; it was saved without curves"):
        later.curve("roc")
    assert read_curves(None) == {}


@pytest.mark.parametrize("damage", [{"version": 1}, [], {"version": 1, "curves": {"roc": {}}}])
def test_damaged_curves_are_refused(fresh: Result, damage: Any) -> None:
    with pytest.raises(truerank.InputError, match="damaged at curves"):
        Result.from_dict(fresh.to_dict(per_query=False) | {"curves": damage})


def test_columns_of_a_later_version_are_kept(fresh: Result) -> None:
    data = fresh.to_dict()
    roc = data["curves"]["curves"]["roc"]["columns"]
    roc["tar_low"] = [None] * len(roc["tar"])
    assert np.isnan(Result.from_dict(data).curve("roc")["tar_low"]).all()


def test_parts_of_a_result_read_back(fresh: Result, read: Result) -> None:
    """Labels and groups are kept as well."""
    first, again = fresh.by("label"), read.by("label")
    assert list(first) == list(again)
    assert all(str(first[label]) == str(again[label]) for label in first)
