"""The bars of severity move without each class as an evaluation without it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank.core.jackknife import Replicates
from truerank.intervals import first_item_replicates
from truerank.intervals.interval import from_replicates

Labels = np.ndarray[Any, Any]


def bars(rows: Labels, labels: Labels, **options: Any) -> truerank.core.curve.Curve:
    return truerank.evaluate(rows, labels, metrics=["h_ap"], **options).curve("severity")


def task(*, classes: int = 48, coarse: int = 4, tied: bool = False) -> tuple[Labels, Labels]:
    """Rows and labels of three levels; some finest labels have one row, and some rows tie."""
    rows, labels = clusters(3, classes=classes, noise=1.1)
    if tied:
        rows = np.rint(rows)[:, :4]
    kept = (labels % 5 != 0) | (np.arange(len(labels)) % 6 == 0)
    rows, labels = rows[kept], labels[kept]
    return rows, np.column_stack([labels // coarse, labels // 2, labels])


def check(found: truerank.core.curve.Curve, without: list[Labels]) -> None:
    """The band is the interval that the bars without each unit make, one after the other."""
    drawn = 0
    for place, value in enumerate(found["value"].tolist()):
        own = Replicates(tuple(float(bar[place]) for bar in without))
        expected = from_replicates(value, own, own, 0.95, (0.0, 1.0)).ends
        band = found["low"][place], found["high"][place]
        if expected is None:
            assert np.isnan(band).all()
        else:
            drawn += 1
            assert band == pytest.approx(expected, rel=1e-9)
    assert drawn >= 2


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("options", [{}, {"unmated": "zero"}, {"average": "class"}])
def test_band_against_evaluations_without_each_class(tied: bool, options: dict[str, Any]) -> None:
    rows, labels = task(tied=tied)
    found = bars(rows, labels, **options)
    units = [labels[:, 0] != unit for unit in np.unique(labels[:, 0])]
    assert len(units) >= 10
    check(found, [bars(rows[kept], labels[kept], confidence=None)["value"] for kept in units])
    wide = truerank.evaluate(rows, labels, metrics=["h_ap"]).curve("severity", band="simultaneous")
    told = ~np.isnan(found["low"])
    assert (wide["low"] < found["low"])[told].all()
    assert (wide["high"] > found["high"])[told].all()


def test_share_of_nothing_is_what_precision_misses() -> None:
    """Where every query has a mate by the finest label, the two intervals are one."""
    rows, labels = clusters(0, classes=60, noise=1.6)
    tree = np.column_stack([labels // 4, labels])
    result = truerank.evaluate(rows, tree, metrics=["precision@1,level=1", "h_ap"])
    interval = result["precision@1,level=1"].interval
    assert interval is not None
    band = result.curve("severity")
    assert 1 - band["low"][0] == pytest.approx(interval[1], abs=1e-12)
    assert 1 - band["high"][0] == pytest.approx(interval[0], abs=1e-12)


def test_finest_units_where_asked_for() -> None:
    rows, labels = task(coarse=12)
    few = bars(rows, labels)
    assert "low" not in few
    assert few.band_reason == (
        "4 classes of level 1 with a query that counts; an interval needs at least 10; "
        'a finer level has enough: pass units="finer" (--units finer)'
    )
    found = bars(rows, labels, units="finest")
    units = [labels[:, 2] != unit for unit in np.unique(labels[:, 2])]
    check(found, [bars(rows[kept], labels[kept], confidence=None)["value"] for kept in units])
    found = bars(rows, labels, units="finer")
    units = [labels[:, 1] != unit for unit in np.unique(labels[:, 1])]
    check(found, [bars(rows[kept], labels[kept], confidence=None)["value"] for kept in units])


@pytest.mark.filterwarnings("ignore:a label of level 2 appears")
def test_paths_where_labels_form_no_tree() -> None:
    rows, labels = task()
    labels[:, 1] = labels[:, 2] % 7  # its names occur below several coarse ones
    found = bars(rows, labels)
    units = [labels[:, 0] != unit for unit in np.unique(labels[:, 0])]
    check(found, [bars(rows[kept], labels[kept], confidence=None)["value"] for kept in units])


def test_with_a_gallery_of_its_own_only_queries_leave() -> None:
    rows, labels = task(classes=160)
    half = np.arange(len(rows)) % 2 == 0
    gallery = {"gallery": rows[~half], "gallery_labels": labels[~half]}
    found = bars(rows[half], labels[half], **gallery)
    units = [labels[half][:, 0] != unit for unit in np.unique(labels[half][:, 0])]
    assert len(units) >= 30
    check(
        found,
        [
            bars(rows[half][kept], labels[half][kept], confidence=None, **gallery)["value"]
            for kept in units
        ],
    )


def test_a_sample_tells_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few of the queries that may move, the noise of their choice is taken out."""
    rows, labels = clusters(1, classes=120, noise=1.3)
    tree = np.column_stack([labels // 4, labels // 2, labels])
    whole = bars(rows, tree)
    monkeypatch.setattr(first_item_replicates, "most_counted", lambda mates, _: len(mates) // 2)
    some = bars(rows, tree)
    assert not np.array_equal(whole["low"], some["low"])
    width = whole["high"] - whole["low"]
    assert np.abs((some["high"] - some["low"]) / width - 1).max() < 0.25


def test_bars_that_say_nothing_of_their_spread() -> None:
    labels = np.repeat(np.arange(40), 3)
    rows = np.eye(40)[labels]
    found = bars(rows, np.column_stack([labels // 4, labels]))
    assert found["value"].tolist() == [0.0, 0.0]
    assert "every share is 0 % or 100 %" in str(found.band_reason)
    assert "low" not in found


def test_no_order_of_rows_no_name_and_no_device_moves_a_bit() -> None:
    rows, labels = task(tied=True)
    expected = bars(rows, labels, device="reference")
    order = np.random.default_rng(0).permutation(len(rows))
    names = np.column_stack([(labels[:, 0] * 7) % 101, labels[:, 1] + 500, 900 - labels[:, 2]])
    for found in (
        bars(rows, labels, device="cpu"),
        bars(rows[order], labels[order]),
        bars(rows, names),
    ):
        for end in ("value", "low", "high"):
            assert found[end].tobytes() == expected[end].tobytes()
